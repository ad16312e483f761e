// Package stream holds numbered events within bounds, and readers' places among
// them.
//
// A [Log] numbers what is appended 1, 2, 3, …, keeps the newest entries and
// forgets the oldest when a bound is passed: in number, in bytes or in age. The
// head, the number of the newest event, outlives the entries, so that a reader
// at the head of an empty log is known to have missed nothing. An epoch names
// the numbering: positions of another epoch mean nothing here.
//
// A [Cursor] is the place of one reader. Reading moves the cursor and changes
// nothing in the log; a reader that is too slow falls off the log and is told so.
//
// A log can move into another process: [Log.Seal] it there, take its [State], and
// [Restore] it here.
//
// Guarantees:
//
//  1. Entries are contiguous: a cursor yields each number once, by exactly +1, or
//     [ErrFellOff] and nothing.
//  2. The order of the numbers is the order of the appends. Whoever has read n
//     reads n+1 after it, on every cursor.
//  3. A position is covered when its epoch is the log's and First <= after <=
//     Head. What follows a covered position is there in full.
//  4. Appending never waits for a reader, and costs per [Notifier], not per follower,
//     per entry or per log.
//
// All methods are safe for concurrent use.
package stream
