// Package hub decides what the holder of a shared connection is to its tabs: who
// they are, where each stands, what to ask the server for, and whom to answer.
//
// A [Hub] owns a [github.com/longwire/longwire/reconnect.Machine] in its relay role.
// As that it is a plain value without goroutine, clock, I/O or randomness of its
// own: a driver tells it what happened and when, and does the actions it gets back.
//
// What a hub keeps to, beside what the machine does:
//
//  1. It keeps nothing that must survive it. Positions and unsettled messages are
//     the tabs'; the next hub asks them.
//  2. Each connection is announced under a number of its own, and tabs say anew
//     where they stand. What was asked before is forgotten.
//  3. A connection is asked for from the lowest positions of the epoch that the tab
//     knows that was served last; for all others the server is asked one by one, and
//     the answer goes to those who asked.
//  4. A stream is followed while a counted tab wants it. A tab counts until it says
//     bye or has been silent for three beats.
//  5. Of two hubs the one that holds the lock is heard: it raises its number above
//     any it hears of, and whoever no longer holds it falls silent.
//  6. Nothing is posted while there is no other tab, except that there is a hub.
package hub
