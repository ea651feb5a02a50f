// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Granter grants the holds of one kind of lock in one session: the server's queue (this package), or a contest
// (package retry). Package acquire chooses.
type Granter interface {
	session.KindRegistry
	// Use returns the Asker for the lock with these keys, and counts the caller as its user.
	Use(keys *LockKeys) Requester
	// ReadGrants reads the reply to a script that granted the lock, for attempts of this session.
	ReadGrants(holder string, reply wire.Reply)
}

// Requester makes requests for one lock.
type Requester interface {
	// Done counts a user out.
	Done()
	// Try acquires the lock if that is possible at once.
	Try(ctx context.Context, wish *Request) (ServerHold, error)
	// Prepare returns a Waiter, which may be made in room. Nothing is sent before its Enter.
	Prepare(wish *Request, room *QueuedRequest) WaitingRequest
}

// WaitingRequest is one request that waits. One goroutine at a time waits with it, and may leave the waiting to
// another.
type WaitingRequest interface {
	// Join returns when the session is in the queue, has tried, or was granted the lock; otherwise it
	// returns an error.
	Join(ctx context.Context) (isGranted bool, err error)
	// Wait waits, after Enter, until the lock is granted, or returns why it is not. The ticket is kept until Leave.
	Wait(ctx context.Context) error
	// Ended returns the error for a goroutine whose ctx has ended while another one waited for both.
	Ended(ctx context.Context) error
	// Leave ends the ticket, and returns what was granted, in the same instant too, or nil.
	Leave() ServerHold
}

// Requeuer is a Holder that can be released and replaced by a new ticket in one call.
type Requeuer interface {
	// Requeue is Release, and queues the session again with the same request. The returned Waiter may be granted
	// already; it is nil if there is no ticket.
	Requeue(ctx context.Context, used wire.Stamp, lasts time.Duration) (next WaitingRequest, had bool, err error)
}

// ServerHold is one hold id, and the hold that comes of it.
type ServerHold interface {
	// Grant returns what the server gave.
	Grant() Grant
	// Name returns the name under which the server records the hold.
	Name() string
	// Begin registers the tenant that has the lock; from here on it can be evicted.
	Begin(tenant LocalHold)
	// Extended records, before Begin, that the hold was lengthened by a call that was sent at sent.
	Extended(life time.Duration, sent clock.Instant)
	// Release releases the lock, and waits for that as long as ctx lasts. used is the stamp of the last token that was used.
	// It returns false if the hold had the lock no more. After an error the release is repeated in the background, until the
	// hold has ended by itself, after lasts at the latest; for longer if a ticket may be left.
	Release(ctx context.Context, used wire.Stamp, lasts time.Duration) (had bool, err error)
	// Abandon releases the lock, or withdraws the request, off the caller's path.
	Abandon()
	// Swap replaces this attempt, which has the lock, by one with that wish, using script.
	Swap(ctx context.Context, script *scripts.Script, wish *Request) (ServerHold, error)
}
