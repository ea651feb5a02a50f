// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Ticket is one request that waits: in the server's queue (this package), or by trying again (package acquire). The session
// counts it until Leave, or until the Done of its Hold.
type Ticket interface {
	waitroom.Ticket
	// Granted ends the ticket, and returns the hold that was granted to it, even in the same instant, and since when it had
	// waited for that: the zero Instant if it was granted at once. Without a hold it leaves, and returns nil.
	Granted() (h Hold, waitedSince timers.Instant)
}

// Hold is one hold id, and the server's hold with that id. The session counts it until Done.
type Hold interface {
	// Grant returns what the server gave.
	Grant() Grant
	// Name returns the name under which the server records the hold.
	Name() string
	// Begin registers the hold in this process. From now on it can be evicted.
	Begin(localHold session.LocalHold)
	// Extended records, before Begin, that the hold was extended by a call that was sent at sent.
	Extended(life time.Duration, sent timers.Instant)
	// Release releases the lock, and waits for the reply until ctx ends. lastUsed is the stamp of the last token that was
	// used. Release returns false if the hold no longer had the lock. After an error the release is repeated in the
	// background until the hold has expired, which takes expiresIn at most, or longer if a ticket may be left.
	Release(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error)
	// Abandon releases the lock off the caller's path.
	Abandon()
	// Swap replaces this hold by one with that request, using script. The session counts the new one in its place.
	Swap(ctx context.Context, script *scripts.Script, request *Request) (Hold, error)
	// Done counts the hold out: nothing waits for its end any more.
	Done()
}
