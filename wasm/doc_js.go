// Command wasm is the hub: the program that a page's shim (web/longwire.js)
// loads to hold the connection. It joins [github.com/longwire/longwire/wasm/hub],
// which decides, to the tabs, which own positions and unsettled messages, and to
// the browser through [github.com/longwire/longwire/jsbridge].
//
// It is built with GOOS=js GOARCH=wasm. It hands its exports to the function
// longwireReady that the shim puts into the global object before it starts it:
//
//	version                       the version of the build
//	open(options, page) hub       a hub; see the type page
//	hub.frame(text)               a frame from that tab
//	hub.tick()                    looks at the time; timers of a hidden page are late
//	hub.others(n)                 how many other tabs there are, -1: not known
//	hub.close()                   ends the connection, settles what is pending
//	hub.handOver()                leaves the connection to the next hub, and says so
//	hub.resign()                  the same without a word: another one is the hub
//
// After the last three nothing is delivered or posted any more, and the hub is
// freed. The options of a hub with other tabs name the channel to them, hubId, tabId,
// others as above, and holds, a function that returns whether the tab still holds the
// lock, or a promise of that. Such a hub tells its own tab yield when it is none any
// more, and is freed by resign.
//
// Frames in both directions are those of [github.com/longwire/longwire/wire], as JSON:
// one in a call of frame, an array of them in one of page.deliver.
package main
