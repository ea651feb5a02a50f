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

// Source is where the holds of one kind of lock come from in one session: the server's queue (this package), or a contest
// (package contend). Package acquire chooses.
type Source interface {
	session.Part
	// Use returns where the lock with these keys is waited for, and counts the caller as its user.
	Use(keys *Keys) Asker
	// Handed takes from the answer to a script that let somebody in what it tells of this session.
	Handed(holder string, reply wire.Reply)
}

// Asker is where one lock is waited for.
type Asker interface {
	// Done counts a user out.
	Done()
	// Try takes the lock if that is possible at once.
	Try(ctx context.Context, wish *Wish) (Holder, error)
	// Stand returns a place. Nothing is sent before its Enter.
	Stand(wish *Wish) Waiter
}

// Waiter is somebody's waiting. Whoever has it waits, one at a time, and may leave the waiting to another.
type Waiter interface {
	// Enter returns when the session is in the queue, or has tried, or was granted the lock, or why it is none of these.
	Enter(ctx context.Context) (isGranted bool, err error)
	// Wait waits, after Enter, until the lock is granted, or returns why it is not. The place is kept until Leave.
	Wait(ctx context.Context) error
	// Ended returns the error of one whose ctx has ended while another waited for both in this place.
	Ended(ctx context.Context) error
	// Leave ends the place, and returns what was granted, in the same instant too, or nil.
	Leave() Holder
}

// Requeuer is a Holder that can be released and replaced by a new place in the queue in one call.
type Requeuer interface {
	// Requeue is Release, and queues the session again by the same wish. The place may be granted already; it is nil if
	// there is none.
	Requeue(ctx context.Context, used wire.Stamp, lasts time.Duration) (next Waiter, had bool, err error)
}

// Holder is one hold id, and the hold that comes of it.
type Holder interface {
	// Grant returns what the server gave.
	Grant() Grant
	// Name returns what the hold is called where holds are written down.
	Name() string
	// Begin says who has the lock, and can be evicted from here on.
	Begin(tenant Tenant)
	// Lengthened says, before Begin, that the hold was given life anew, in answer to what was sent at sent.
	Lengthened(life time.Duration, sent clock.Instant)
	// Release releases the lock, and waits for that as long as ctx lasts. used is the stamp of the last token that was used.
	// It returns false if the hold had the lock no more. After an error the release is repeated in the background, until the
	// hold has ended by itself, after lasts at the latest.
	Release(ctx context.Context, used wire.Stamp, lasts time.Duration) (had bool, err error)
	// Abandon gives the lock back, or takes back what was asked for, off the caller's path.
	Abandon()
	// Swap puts an attempt with that wish in the place of this one, which has the lock, by script.
	Swap(ctx context.Context, script *scripts.Script, wish *Wish) (Holder, error)
}
