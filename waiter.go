// SPDX-License-Identifier: Apache-2.0

package signalbox

import "time"

// Waiter is somebody who stands in line for a lock.
type Waiter struct {
	// Position counts from 1, the next to be granted the lock if it lives.
	Position int
	// Label is what its session is called; see WithLabel. In Redisson's layout it is the owner as Redisson writes it.
	Label string
	// Session is the ID of its session.
	Session string
	// Since is when it came, by the server's clock. Zero in Redisson's layout.
	Since time.Time
	// Alive reports whether its session was heard of lately; one that was not is passed over, and
	// loses its place in a while.
	Alive bool
	// Goroutines is how many goroutines the ticket stands for if it is one of the session that asks. It
	// is 0 for tickets of other sessions, whose goroutines only they can count.
	Goroutines int
}
