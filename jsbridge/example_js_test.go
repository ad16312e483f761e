package jsbridge

import (
	"context"
	"log"
	"time"
)

// A socket reports in order, the end last; the page's signals come by themselves.
func Example() {
	ended := make(chan CloseInfo, 1)
	var socket *Socket
	socket, err := Dial("/ws", SocketHandler{
		Open: func() {
			if err := socket.Send([]byte(`{"t":"resume","v":1}`)); err != nil {
				log.Print(err)
			}
		},
		Message:    func(data []byte, _ bool) { log.Printf("%s", data) },
		Close:      func(info CloseInfo) { ended <- info },
		MaxMessage: 16 << 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	undo, err := Listen(func(s Signal, _ bool) {
		if s == PageHide || s == Freeze {
			socket.Abandon(4001, "leaving") // at once: nothing of us runs after this
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer undo()
	info := <-ended
	log.Printf("closed with %d %q", info.Code, info.Reason)
}

// A page does not see why an upgrade was refused. It sees what a probe is answered.
func ExampleProbe() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := Probe(ctx, "/probe")
	switch {
	case err != nil:
		log.Print("unreachable: ", err)
	case answer.Status == 204 && answer.Header("Longwire-Probe") == "1":
		log.Print("network and login are fine")
	case answer.Status == 401:
		log.Print("the login is over")
	}
}
