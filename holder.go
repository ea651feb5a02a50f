// SPDX-License-Identifier: Apache-2.0

package signalbox

import "time"

// Holder is who has a lock, by the server's account at one moment: it may be out of date when it is
// read, and is for people and for monitoring. Only a lease says that something is held.
type Holder struct {
	// Kind is the kind of lock that it is held as: "reentrant", ...
	Kind string
	// Label is what the holder's session says of itself; see WithLabel. Nobody vouches for it.
	Label string
	// Session is the ID of the holder's session.
	Session string
	// Since is when the holder took the lock; where its process has passed it on for long, when that
	// last asked the server whether it may go on. By the server's clock.
	Since time.Time
	// Until is when the key ends unless the lease is renewed; the zero Time where the key has no end,
	// which no lock of ours leaves so. By the server's clock.
	Until time.Time
	// Token is the first fencing token that the holding process may use. A lock that was passed on
	// inside the process has a greater one since, from the block that begins here; the next holder's is
	// beyond the block.
	Token uint64
}
