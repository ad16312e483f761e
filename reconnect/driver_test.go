//go:build !js

package reconnect

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What was subscribed before Run is in the first resume, however late the loop comes to
// look. Else an event could be published between the welcome and the answer to the sub,
// and a stream that starts from now would be without it.
func TestTheFirstResumeAsksForWhatWasSubscribedBefore(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	o := Options{
		URL:        func(ctx context.Context) (string, error) { return "", hang(ctx) },
		HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) { return nil, hang(r.Context()) })},
	}
	first := func(t *testing.T) []byte {
		c, err := NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Subscribe("prices", nil, Handler{}); err != nil {
			t.Fatal(err)
		}
		for _, ev := range []Event{URLReady{Attempt: 1, URL: "http://host.invalid"}, Opened{Conn: 1}} {
			go func() { c.inbox <- ev }()
			synctest.Wait() // it is there before the loop begins
		}
		ctx, cancel := context.WithCancel(t.Context())
		d := &driver{Client: c, ctx: ctx}
		ended := make(chan error)
		go func() { ended <- d.loop(ctx) }()
		synctest.Wait()
		written := bytes.Join(d.links[1].out, []byte("\n"))
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		d.linksWG.Wait()
		return written
	}
	for range 50 { // a select draws among what is ready
		synctest.Test(t, func(t *testing.T) {
			if written := first(t); !bytes.Contains(written, []byte(`"prices"`)) {
				t.Errorf("the resume is %s", written)
			}
		})
	}
}

// Whoever subscribes as soon as another has unsubscribed is subscribed: what is asked for
// is handled in the order in which it was.
func TestASubscriptionOutlivesTheEndOfTheOneBefore(t *testing.T) {
	c, err := NewClient(Options{URL: func(context.Context) (string, error) { return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Subscribe("prices", nil, Handler{})
	for range 500 {
		if err != nil {
			t.Fatal(err)
		}
		var unsubscribing sync.WaitGroup
		unsubscribing.Go(s.Unsubscribe)
		for s, err = c.Subscribe("prices", nil, Handler{}); errors.Is(err, ErrSubscribed); {
			s, err = c.Subscribe("prices", nil, Handler{})
		}
		unsubscribing.Wait()
		mail := c.takeMail()
		if last, ok := mail[len(mail)-1].(begun); !ok || last.s != s {
			t.Fatalf("the last that was asked for is %T", mail[len(mail)-1])
		}
	}
}
