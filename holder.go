// SPDX-License-Identifier: Apache-2.0

package signalbox

import "time"

// Holder describes the holder of a lock, as the server saw it at one moment. It may be out of date
// when it is read, and is for people and for monitoring. Only a lease says that something is held.
type Holder struct {
	// Kind is the kind of lock that it is held as: "reentrant", "fair", "rwlock" or "redlock". Of
	// several readers it is the one whose hold ends last.
	Kind string
	// Shared reports whether others may have the lock beside this holder, as readers may. Only
	// Holders of package rwlock sets it; everywhere else it is false, even for a reader.
	Shared bool
	// MayBeIdle reports whether the lock has WithKeepWarm: its session may keep it while no goroutine uses it. The
	// server does not know whether that is so now.
	MayBeIdle bool
	// Label is the label of the holder's session; see WithLabel. It is not verified. In a layout
	// of others it is the owner as they write it.
	Label string
	// Session is the ID of the holder's session; that of another client is what its layout says.
	Session string
	// Since is when the holder took the lock, by the server's clock. If its process has handed the
	// lock over inside for long, it is when the process last asked the server whether it may
	// continue. Of a read-write lock, Since and Token are those of the latest acquire. Zero in
	// layouts of others.
	Since time.Time
	// Until is when the key ends unless the lease is renewed, by the server's clock. It is the zero
	// Time if the key has no end, which no lock of this library leaves so.
	Until time.Time
	// Token is the first fencing token that the holding process may use. If the server's clock is
	// behind the tokens of the name, it may be up to 1,024 less than that. Each time the lock is
	// handed over inside the process the token rises, within a block that begins here; the next
	// holder's token is beyond the block. Zero in layouts of others.
	Token uint64
}

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
