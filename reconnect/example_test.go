//go:build !js

package reconnect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// A client is subscribed to what it follows, and run until there is no more to do.
func Example() {
	s, site := serve(server.Options{NoOrigin: true}) // a native program sends no Origin
	defer site.Close()
	defer s.Close() //nolint:errcheck // is always nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	client, err := reconnect.NewClient(reconnect.Options{
		URL: func(context.Context) (string, error) { return site.URL, nil }, // a fresh one for every dial
		OnState: func(status reconnect.Status) {
			if status.State == reconnect.Live {
				for _, price := range []string{"1.07", "1.08"} {
					if _, err := s.Publish(ctx, "prices", []byte(price)); err != nil {
						panic(err)
					}
				}
			}
		},
	})
	if err != nil {
		panic(err)
	}
	_, err = client.Subscribe("prices", nil, reconnect.Handler{
		Event: func(event reconnect.EventInfo) {
			fmt.Printf("%d: %s\n", event.Seq, event.Data)
			if event.Seq == 2 {
				cancel()
			}
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(client.Run(ctx))
	// Output:
	// 1: 1.07
	// 2: 1.08
	// context canceled
}

// A program that has kept its position goes on from there, in another process too.
func ExampleClient_Subscribe_from() {
	s, site := serve(server.Options{NoOrigin: true})
	defer site.Close()
	defer s.Close() //nolint:errcheck // is always nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range 5 {
		if _, err := s.Publish(ctx, "prices", fmt.Append(nil, i+1)); err != nil {
			panic(err)
		}
	}

	follow := func(from *reconnect.Position, until uint64) (kept reconnect.Position) {
		running, stop := context.WithCancel(ctx)
		defer stop()
		client, err := reconnect.NewClient(reconnect.Options{
			URL: func(context.Context) (string, error) { return site.URL, nil },
		})
		if err != nil {
			panic(err)
		}
		following, err := client.Subscribe("prices", from, reconnect.Handler{
			Event: func(event reconnect.EventInfo) {
				fmt.Printf("event %d\n", event.Seq)
				if event.Seq == until {
					stop()
				}
			},
			Recovered: func(r reconnect.Recovery) {
				fmt.Println(r.Outcome)
				if r.Outcome == reconnect.GapWithoutSnapshot {
					stop()
				}
			},
		})
		if err != nil {
			panic(err)
		}
		_ = client.Run(running) // ends by stop
		kept, _ = following.Position()
		return kept
	}
	kept := follow(&reconnect.Position{Seq: 3, Epoch: "of a server that is gone"}, 0)
	fmt.Println("goes on after event", kept.Seq)
	kept.Seq = 3
	follow(&kept, 5)
	// Output:
	// gap without snapshot
	// goes on after event 5
	// replayed
	// event 4
	// event 5
}

// A message has one of four outcomes. Only one that was not sent may be repeated
// without a second thought.
func ExampleClient_Send() {
	s, site := serve(server.Options{
		NoOrigin: true,
		OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
			if string(m.Body) != `{"buy":3}` {
				return nil, &server.Refusal{Code: "bad-order", Reason: "three, or none"}
			}
			return json.RawMessage(`"order 1"`), nil
		},
	})
	defer site.Close()
	defer s.Close() //nolint:errcheck // is always nil
	client, err := reconnect.NewClient(reconnect.Options{
		URL: func(context.Context) (string, error) { return site.URL, nil },
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var running sync.WaitGroup
	running.Go(func() { _ = client.Run(ctx) }) // ends by cancel

	for _, body := range []string{`{"buy":3}`, `{"buy":4}`} {
		result, err := client.Send(ctx, json.RawMessage(body))
		if refused, ok := errors.AsType[*reconnect.SendError](err); ok {
			fmt.Println(refused.Outcome, refused.Code)
			continue
		}
		fmt.Printf("%s\n", result)
	}
	cancel()
	running.Wait()
	// Output:
	// "order 1"
	// refused bad-order
}

func serve(o server.Options) (*server.Server, *httptest.Server) {
	s, err := server.New(o)
	if err != nil {
		panic(err)
	}
	return s, httptest.NewServer(s)
}
