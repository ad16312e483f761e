package reconnect_test

import (
	"fmt"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// A machine decides and does nothing: here the driver is the example.
func ExampleMachine() {
	machine, err := reconnect.NewMachine(reconnect.Policy{Rand: func() float64 { return 0.5 }})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	handle := func(event reconnect.Event) {
		for _, action := range machine.Handle(now, event) {
			if _, ok := action.(reconnect.Report); !ok {
				fmt.Printf("%T\n", action)
			}
		}
	}
	handle(reconnect.Start{})
	handle(reconnect.URLReady{Attempt: 1, URL: "wss://example.com/ws"})
	handle(reconnect.Closed{Conn: 1, Code: 1006})
	wait, _ := machine.Next(now)
	fmt.Println(machine.State(), wait)
	// Output:
	// reconnect.FetchURL
	// reconnect.Dial
	// waiting 250ms
}
