// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/hold"
)

// Lease is the right to something for as long as it can be trusted. It is a small value, free
// to copy; all copies are the same lease, and any goroutine may use or unlock it. The zero
// Lease holds nothing: its Err is ErrNotHeld.
//
// A lease ends by Unlock, or when it can no longer be trusted: its deadline passed without a
// renewal, or the server said that the key is gone.
type Lease hold.Lease

// Token answers the fencing token: greater than that of every true holder of the name before; readers that
// share a hold share it, and of permits see package semaphore.
// Hand it to the resource that the lock protects, and let it refuse smaller ones; that holds
// where a lease alone cannot. Its unit is a quarter of a microsecond of server time since
// 2025-01-01; with Redisson's Fenced it is the next number of a counter. Entering again keeps the token. The zero Lease answers 0. No round trip.
func (l Lease) Token() uint64 { return hold.Lease(l).Token() }

// Err answers nil while the lease can be trusted, else why it ended: ErrReleased, ErrLost or
// ErrMaxHold. It compares the clock itself, so the first look after a pause of the process or of
// the host tells. No round trip: a ForceUnlock is told by message, what else somebody did to the key
// on the server by the next renewal.
func (l Lease) Err() error { return hold.Lease(l).Err() }

// Done answers a channel that closes when this lease ends, by its own Unlock or by loss. That of the zero Lease is
// closed.
func (l Lease) Done() <-chan struct{} { return hold.Lease(l).Done() }

// Deadline returns until when the lease can be trusted if no renewal succeeds any more, by this
// host's clock. It moves with each renewal. Once the lease is lost it returns when that happened, and
// after Unlock the zero time, as for the zero Lease.
func (l Lease) Deadline() time.Time { return hold.Lease(l).Deadline() }

// Bind returns a child of ctx that also ends with the lease, before the lock is released or passed on.
// context.Cause says why it ended: ErrReleased, ErrLost or ErrMaxHold. Its Err compares the clock
// itself. If the lease has ended, or is the zero Lease, the context has ended too. If ctx is nil it has
// ended with ErrBadOption as its cause. It gives no right to enter again: that is Enter.
//
// It needs no cancel. All contexts that are bound to a lease and have one parent, or parents that end
// with the same context, share what is kept for them, and it goes when the lease or that parent ends.
// So bind as often as you like, also to context.Background. A child with a cancel of its own, as of
// context.WithTimeout, needs that called as ever.
func (l Lease) Bind(ctx context.Context) context.Context { return hold.Lease(l).Bind(ctx) }

// Enter is Bind, and the right to enter again: Lock and TryLock with the context answered, or
// with one made from it, enter the lock of this lease at once, without a round trip. That is
// how ownership travels, since a goroutine has no identity.
//
// It names the lease, not a goroutine: goroutines that use one Enter context do not exclude each
// other. Where that is not wanted, hand them Bind.
func (l Lease) Enter(ctx context.Context) context.Context { return hold.Lease(l).Enter(ctx) }

// Unlock ends the lease, here first and then on the server. It takes no context, so that it
// works when the request it was held for is over. The lock goes on to others when the last of
// its leases ends; Unlock of the others costs no round trip.
//
// It answers nil when the lock was given back or passed on, ErrNotHeld for a lease that was
// unlocked before, ErrLost or ErrMaxHold where the lease had ended before (somebody else may have
// worked meanwhile), and *UnconfirmedError, which is ErrUnconfirmed, if the server did not reply
// within a second: the release is repeated in the background until the key has ended. See Tune for
// when a client that Tune did not set up can take longer.
func (l Lease) Unlock() error { return hold.Lease(l).Unlock() }
