package wire_test

import (
	"fmt"

	"github.com/longwire/longwire/wire"
)

// A message is read as a whole or not at all; payloads stay the text that they were.
func ExampleDecode() {
	frames, err := wire.Decode([]byte(`[{"t":"event","seq":7,"stream":"prices","data":{"EUR":1.07}},{"t":"hb"}]`))
	if err != nil {
		panic(err)
	}
	for _, frame := range frames {
		switch f := frame.(type) {
		case wire.Event:
			fmt.Printf("%s %d: %s\n", f.Stream, f.Seq, f.Data)
		default:
			fmt.Println(f.Type())
		}
	}
	// Output:
	// prices 7: {"EUR":1.07}
	// hb
}

// An error names the frame, the field and what is wrong with it.
func ExampleDecode_malformed() {
	_, err := wire.Decode([]byte(`{"t":"event","seq":-1,"data":null}`))
	fmt.Println(err)
	// Output:
	// wire: event: seq: "-1": must be an integer from 0 to 2^53-1
}

func ExampleResume_Append() {
	resume := wire.Resume{
		V: wire.Version, Gen: 1, Batch: true,
		Subs: map[string]wire.Want{
			"prices": {Has: true, After: 7, Epoch: "e1"}, // what follows event 7
			"news":   {},                                 // from a snapshot, or from now
		},
	}
	fmt.Printf("%s\n", resume.Append(nil))
	// Output:
	// {"t":"resume","v":1,"gen":1,"subs":{"news":{},"prices":{"after":7,"epoch":"e1"}},"batch":true}
}

// A server that has no room says when to come back, to each client the same range.
func ExampleParseRetryReason() {
	low, high, ok := wire.ParseRetryReason("retry=2000-10000")
	fmt.Println(low, high, ok)
	// Output:
	// 2s 10s true
}
