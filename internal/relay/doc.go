// SPDX-License-Identifier: Apache-2.0

// Package relay is the queue, inside one process, of those who want the like from a line at the server: what one of
// them gives back the next is given, and one of them, the seeker, stands in line for all.
//
// # Guarantees
//
//  1. Who waits is served in the order of arrival, by what is passed on here and by what the server grants to the
//     seeker, whoever that is. Passed over is who is on its way to the server, for that long.
//  2. While anybody waits somebody seeks. Whatever ends a seeker's part leaves it to another who waits: its place
//     in line too, unless the server has granted something for that.
//  3. Who comes while nobody is known to wait asks the server itself, beside others who do so: what is not scarce is not
//     queued for.
//  4. Who waits for others alone is told at once that nobody is to wait any more (Table.Refuse), whatever a seeker's call takes.
//  5. Who gives up in the instant in which it is given something has it.
//
// # Not guaranteed
//
// Order among those who do not want the like, who wait each in a queue of their own: the line at the server has that. Order
// among those who ask the server beside each other, but for the server's.
//
// # States of one who waits
//
//	from      when                                             to
//
//	idle      it is told to seek                               away
//	idle      something is passed on, or granted, to it        served
//	idle      nobody is to wait any more                       gone
//	away      it stands in line                                standing
//	away      it was granted something, and is the first       served
//	away      it was granted something, and another is first   idle, or away again
//	away      it cannot stand in line                          gone
//	standing  something is passed on, or granted, to it        served: its place is another's, or left
//	standing  what it waits for is granted, or cannot be       away
//	any       its context ends                                 gone: its part, and its place, are another's, or left
//
// Who asks the server itself and is told to wait becomes one who stands: in the beginning there may be several. What they
// have too many of ends as they are served.
//
// The last of those who are idle is told to seek: it has the longest to wait, so the part changes hands seldom.
//
// # Ownership
//
// No goroutine runs here: a seeker seeks on its caller's.
//
// # Locking
//
// The lock of a Relay comes before those of holds: what is passed on is made under it. Nothing under it calls the server,
// or a context.
package relay
