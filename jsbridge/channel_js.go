package jsbridge

import (
	"errors"
	"sync/atomic"

	"github.com/hack-pad/safejs"
)

// Channel is a BroadcastChannel: what one posts, every other Channel of the same
// name, origin and browser gets, in the order of each sender, but not itself.
// There is no buffer for who opens later, and no limit on what piles up at who
// does not run. Its methods may be called from any goroutine and from within
// callbacks; none waits.
type Channel struct {
	js     safejs.Value
	events *listener
	closed atomic.Bool
}

// OpenChannel opens the channel of that name; the empty one is a name too. It is an
// error where there are no channels.
//
// onMessage gets every text that is posted, until Close; anything else than text
// is ignored. It runs within JavaScript's call and must not wait.
func OpenChannel(name string, onMessage func(text string)) (*Channel, error) {
	constructor, ok := global("BroadcastChannel")
	if !ok {
		return nil, errors.New("jsbridge: there is no BroadcastChannel here")
	}
	js, err := constructor.New(name)
	if err != nil {
		return nil, failed("open a channel", err)
	}
	c := &Channel{js: js}
	c.events, err = newListener("channel message", func(event safejs.Value) {
		if text, ok := stringOf(event, "data"); ok && !c.closed.Load() {
			onMessage(text)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := c.events.listen(js, "message"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Value returns the JavaScript channel.
func (c *Channel) Value() safejs.Value { return c.js }

// Post sends text to the others; what is not UTF-8 in it becomes U+FFFD. It fails
// after Close. No error does not mean that there was anybody.
func (c *Channel) Post(text string) error {
	if c.closed.Load() {
		return errors.New("jsbridge: post: the channel is closed")
	}
	_, err := c.js.Call("postMessage", text)
	return failed("post", err)
}

// Close leaves the channel: no message comes any more, also none that was on its
// way. A second Close does nothing.
func (c *Channel) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.events.remove()
	//nolint:errcheck // it has this method
	c.js.Call("close")
}
