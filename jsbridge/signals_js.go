package jsbridge

import (
	"errors"

	"github.com/hack-pad/safejs"
)

// Signal is something that the browser says about the page's circumstances.
type Signal int

// The signals. Their order on the way to sleep and back is the browser's; in
// Chromium PageHide, Hidden, Freeze, then Resume, Visible, PageShow.
const (
	// Online: the browser believes that there is a network. It comes before one
	// can be used, and says nothing about any server.
	Online Signal = iota + 1
	// Offline: the browser is sure that there is none.
	Offline
	// Visible: the page can be seen (again).
	Visible
	// Hidden: it cannot; timers are slowed down from now on.
	Hidden
	// PageHide: the page goes away, or to sleep where persisted.
	PageHide
	// PageShow: the page was loaded, or woke up from sleep where persisted.
	PageShow
	// Freeze: nothing runs until Resume. Only Chromium says so.
	Freeze
	// Resume ends a Freeze.
	Resume
	// BeforeUnload: the page may be about to go. It may also stay, which nothing says.
	BeforeUnload
)

// String returns the signal's name.
func (s Signal) String() string {
	switch s {
	case Online:
		return "online"
	case Offline:
		return "offline"
	case Visible:
		return "visible"
	case Hidden:
		return "hidden"
	case PageHide:
		return "pagehide"
	case PageShow:
		return "pageshow"
	case Freeze:
		return "freeze"
	case Resume:
		return "resume"
	case BeforeUnload:
		return "beforeunload"
	}
	return "no signal"
}

// Listen calls fn with every signal until undo is called, which may be called
// twice and from within fn. persisted is the browser's word with PageHide and
// PageShow, and false otherwise.
//
// fn runs within JavaScript's call and must not wait. What must be done before the
// page sleeps it does at PageHide and Freeze itself, or hands to a goroutine that
// does it without waiting.
//
// Where only some of the signals exist (a worker has Online and Offline) it
// listens for those; where none does (Node) that is an error.
func Listen(fn func(s Signal, persisted bool)) (undo func(), err error) {
	document, err := Get(safejs.Global(), "document")
	if err != nil {
		return nil, err
	}
	return listenOn(safejs.Global(), document, fn)
}

// listenOn is Listen with the targets named; document may be undefined.
func listenOn(window, document safejs.Value, fn func(Signal, bool)) (undo func(), err error) {
	add, err := Get(window, "addEventListener")
	if err != nil || add.Type() != safejs.TypeFunction {
		return nil, errors.New("jsbridge: there are no page events here")
	}
	l, err := newListener("signal", func(event safejs.Value) {
		if s := signalOf(textOf(event, "type"), document); s != 0 {
			fn(s, isTrue(event, "persisted"))
		}
	})
	if err != nil {
		return nil, err
	}
	err = l.listen(window, "online", "offline", "pagehide", "pageshow", "beforeunload")
	if err == nil && document.Type() == safejs.TypeObject {
		err = l.listen(document, "visibilitychange", "freeze", "resume")
	}
	if err != nil {
		l.remove()
		return nil, err
	}
	return l.remove, nil
}

// signalOf returns the signal of an event, 0 for none.
func signalOf(event string, document safejs.Value) Signal {
	switch event {
	case "online":
		return Online
	case "offline":
		return Offline
	case "pagehide":
		return PageHide
	case "pageshow":
		return PageShow
	case "freeze":
		return Freeze
	case "resume":
		return Resume
	case "beforeunload":
		return BeforeUnload
	case "visibilitychange":
		if textOf(document, "visibilityState") == "hidden" {
			return Hidden
		}
		return Visible
	}
	return 0
}

// Current returns whether the browser believes that there is a network, and
// whether the page can be seen. Where it cannot say: true.
func Current() (online, visible bool) {
	online, visible = true, true
	if navigator, err := Get(safejs.Global(), "navigator"); err == nil {
		if v, err := Get(navigator, "onLine"); err == nil && v.Type() == safejs.TypeBoolean {
			online = isTrue(navigator, "onLine")
		}
	}
	if document, err := Get(safejs.Global(), "document"); err == nil {
		visible = textOf(document, "visibilityState") != "hidden"
	}
	return online, visible
}
