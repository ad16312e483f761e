package stream_test

import (
	"fmt"

	"github.com/longwire/longwire/stream"
)

// A reader takes what there is, as much as fits, and goes on from there.
func Example() {
	log := stream.NewLog("epoch-1", stream.Limits{Events: 3})
	for i := range 5 {
		if _, err := log.Append(fmt.Appendf(nil, "event %d", i+1)); err != nil {
			panic(err)
		}
	}
	first, head := log.Bounds()
	fmt.Println("covers", first, "to", head)

	cursor := log.Cursor(3, nil, nil) // a reader that has handled event 3
	from, events, err := cursor.Next(nil, 1024)
	if err != nil {
		panic(err)
	}
	for i, event := range events {
		fmt.Printf("%d: %s\n", from+uint64(i), event)
	}
	// Output:
	// covers 2 to 5
	// 4: event 4
	// 5: event 5
}

// Whoever was away for too long is told so, and never gets a part of what was missed.
func ExampleCursor_Next_fellOff() {
	log := stream.NewLog("epoch-1", stream.Limits{Events: 2})
	for range 10 {
		if _, err := log.Append([]byte("{}")); err != nil {
			panic(err)
		}
	}
	cursor := log.Cursor(3, nil, nil)
	_, _, err := cursor.Next(nil, 1024)
	fmt.Println(err)
	cursor.Seek(log.Head()) // from now on, after a snapshot say
	// Output:
	// stream: position is not covered by the log
}

// A position is worth something only within the numbering that it belongs to.
func ExampleLog_Covers() {
	log := stream.NewLog("epoch-2", stream.Limits{})
	if _, err := log.Append([]byte("{}")); err != nil {
		panic(err)
	}
	fmt.Println(log.Covers("epoch-2", 0), log.Covers("epoch-2", 1))
	fmt.Println(log.Covers("epoch-2", 2), log.Covers("epoch-1", 1))
	// Output:
	// true true
	// false false
}

// A signal says that there is something to read, to whoever has read all there was.
func ExampleLog_Cursor() {
	log := stream.NewLog("epoch-1", stream.Limits{})
	signal := make(stream.Signal, 1)
	cursor := log.Cursor(0, signal, nil)
	defer cursor.Close()

	_, events, err := cursor.Next(nil, 1024)
	fmt.Println(len(events), err) // from here on the signal says when there is more

	if _, err = log.Append([]byte(`"hello"`)); err != nil {
		panic(err)
	}
	(<-signal).Take(nil, 1)
	from, events, err := cursor.Next(nil, 1024)
	fmt.Printf("%d: %s %v\n", from, events[0], err)
	// Output:
	// 0 <nil>
	// 1: "hello" <nil>
}
