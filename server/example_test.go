package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

func Example() {
	var s *server.Server
	s, err := server.New(server.Options{
		Authenticate: func(r *http.Request) (server.Identity, error) {
			user, err := r.Cookie("user") // whatever your site's sessions look like
			if err != nil {
				return server.Identity{}, server.ErrUnauthorized
			}
			return server.Identity{User: user.Value}, nil
		},
		Authorize: func(_ context.Context, _ server.Identity, stream string) error {
			if stream != "chat" {
				return errors.New("no such stream")
			}
			return nil
		},
		OnMessage: func(ctx context.Context, m server.Message) (json.RawMessage, error) {
			_, err := s.Publish(ctx, "chat", m.Body)
			return nil, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/longwire", s)
	http.Handle("/longwire/probe", s.Probe())
}

// tally is a state that changes with each event, and knows which events are in it.
type tally struct {
	mu  sync.Mutex
	n   int
	seq uint64
}

// add publishes that it has grown.
func (c *tally) add(ctx context.Context, s *server.Server) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.seq, err = s.Publish(ctx, "counter", fmt.Append(nil, c.n))
	return err
}

func (c *tally) snapshot(context.Context, string) (server.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return server.Snapshot{State: fmt.Append(nil, c.n), HasSeq: true, Seq: c.seq}, nil
}

// A snapshot and its position are of the same moment. So each follower has every
// change once: in the snapshot, or as an event after it.
func ExampleOptions_snapshot() {
	var count tally
	s, err := server.New(server.Options{NoOrigin: true, Snapshot: count.snapshot})
	if err != nil {
		panic(err)
	}
	site := httptest.NewServer(s)
	defer site.Close()
	defer s.Close() //nolint:errcheck // is always nil

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		if err = count.add(ctx, s); err != nil {
			panic(err)
		}
	}
	client, err := reconnect.NewClient(reconnect.Options{
		URL: func(context.Context) (string, error) { return site.URL, nil },
	})
	if err != nil {
		panic(err)
	}
	_, err = client.Subscribe("counter", nil, reconnect.Handler{
		Snapshot: func(state reconnect.SnapshotInfo) {
			fmt.Printf("%s at %d\n", state.State, state.Position.Seq)
			if failed := count.add(ctx, s); failed != nil {
				panic(failed)
			}
		},
		Event: func(event reconnect.EventInfo) {
			fmt.Printf("%s is event %d\n", event.Data, event.Seq)
			cancel()
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(client.Run(ctx))
	// Output:
	// 3 at 3
	// 4 is event 4
	// context canceled
}

// What a program does that is told to stop: its clients move, its state is kept, and
// the next one goes on from there.
func ExampleServer_Drain() {
	s, err := server.New(server.Options{DrainGrace: 5 * time.Second, StateFile: "/var/lib/site/longwire"})
	if err != nil {
		log.Fatal(err)
	}
	// ... serve, until SIGTERM
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	report, err := s.Drain(ctx, 30*time.Second)
	log.Printf("%d moved, %d closed, %d dropped: %v", report.Moved, report.Closed, report.Forced, err)
	if err := s.SaveState(); err != nil {
		log.Print(err)
	}
	if err := s.Close(); err != nil {
		log.Print(err)
	}
}

// Whom a refusal is for sees its code and reason. With Retry the client sends the
// message again after that time, and what it sends later waits.
func ExampleRefusal() {
	stock := 2
	onMessage := func(_ context.Context, m server.Message) (json.RawMessage, error) {
		var order struct{ Count int }
		if err := json.Unmarshal(m.Body, &order); err != nil || order.Count <= 0 {
			return nil, &server.Refusal{Code: "bad-order", Reason: "count must be above zero"}
		}
		if order.Count > stock {
			return nil, &server.Refusal{Code: "sold-out", Reason: "more is on its way", Retry: 5 * time.Second}
		}
		stock -= order.Count
		return json.Marshal(stock)
	}
	for _, body := range []string{`{"count":0}`, `{"count":1}`, `{"count":3}`} {
		result, err := onMessage(context.Background(), server.Message{ID: "m-1", Body: json.RawMessage(body)})
		fmt.Printf("%s %v\n", result, err)
	}
	// Output:
	//  server: refused: bad-order: count must be above zero
	// 1 <nil>
	//  server: refused: sold-out: more is on its way
}
