// SPDX-License-Identifier: Apache-2.0

package signalbox

import "time"

// Waiter describes a ticket in the queue of a lock, as the server saw it at one moment.
type Waiter struct {
	// Position counts from 1, the next to be granted the lock if it lives.
	Position int
	// Label is the label of its session; see WithLabel. In a layout of others it is the owner as
	// they write it.
	Label string
	// Session is the ID of its session.
	Session string
	// Since is when it joined the queue, by the server's clock. Zero in layouts of others.
	Since time.Time
	// Alive reports whether its session sent a heartbeat lately. A ticket whose session did not is skipped,
	// and leaves the queue after a while.
	Alive bool
	// Goroutines is how many goroutines the ticket stands for if it is one of the session that asks. It
	// is 0 for tickets of other sessions, whose goroutines only they can count.
	Goroutines int
}
