package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
)

// marketFeed is a server that has never heard of Longwire: it takes a subscription
// and numbers its messages.
type marketFeed struct {
	mu   sync.Mutex
	log  []string
	subs []string
}

func TestAFeedThatIsNoLongwireServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &marketFeed{}
		serve := func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow() //nolint:errcheck // a test
			var sub struct {
				Op    string `json:"op"`
				Since *int   `json:"since"`
			}
			_, text, err := ws.Read(r.Context())
			if err != nil || json.Unmarshal(text, &sub) != nil || sub.Op != "subscribe" {
				return
			}
			m.mu.Lock()
			m.subs = append(m.subs, string(text))
			next := len(m.log)
			m.mu.Unlock()
			if sub.Since != nil {
				next = *sub.Since
			}
			ctx := ws.CloseRead(r.Context())
			for ctx.Err() == nil {
				m.mu.Lock()
				pending := m.log[min(next, len(m.log)):]
				next = max(next, len(m.log))
				m.mu.Unlock()
				for _, line := range pending {
					if ws.Write(ctx, websocket.MessageText, []byte(line)) != nil {
						return
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		w := &world{t: t, net: memnet.Listen(), effects: make(map[string]int)}
		hs := &http.Server{Handler: http.HandlerFunc(serve), ReadHeaderTimeout: 10 * time.Second}
		go hs.Serve(w.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
		publish := func(first, last int) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for i := first; i <= last; i++ {
				m.log = append(m.log, fmt.Sprintf(`{"seq":%d}`, i))
			}
		}
		publish(1, 3) // before we came
		w.run(reconnect.Options{
			URL: func(context.Context) (string, error) { return "ws://feed/", nil },
			Policy: reconnect.Policy{Dialect: &reconnect.Dialect{
				Hello: `{"op":"subscribe","symbols":["A"],"since":"$after"}`, Seq: "seq",
			}},
		})
		w.subscribe("", w.logging())
		w.live()
		time.Sleep(time.Second)
		publish(4, 5)
		time.Sleep(time.Second)
		want(t, w.taken(), `event 4 {"seq":4}`, `event 5 {"seq":5}`)
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		publish(6, 8)
		w.net.Refuse(false)
		w.live()
		time.Sleep(time.Second)
		want(t, w.taken(), "resumed missed=0", `event 6 {"seq":6}`, `event 7 {"seq":7}`, `event 8 {"seq":8}`)
		want(t, m.subs, `{"op":"subscribe","symbols":["A"],"since":null}`, `{"op":"subscribe","symbols":["A"],"since":5}`)
		w.stop()
		_ = hs.Close()
		w.net.Cut()
		time.Sleep(time.Second) // for the handlers to see it
	})
}
