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
type Lease opaqueLease

// Token returns the fencing token. It is greater than the token of every earlier holder of the name.
// Readers that share a hold share it; for permits see package semaphore. Hand it to the resource
// that the lock protects, and let that refuse smaller tokens: this protects the resource when a
// lease alone cannot. Its unit is a quarter of a microsecond of server time since 2025-01-01; in
// a layout of others that counts its tokens it is the next number. Entering again keeps the token. The zero
// Lease returns 0. No round trip.
func (l Lease) Token() uint64 { return hold.Lease(l).Token() }

// Err returns nil while the lease can be trusted, else why it ended: ErrReleased, ErrLost or
// ErrMaxHold. It compares the clock itself, so the first call after a pause of the process or of
// the host reports the loss. No round trip: a message reports a ForceUnlock, and the next renewal
// any other change of the key on the server.
func (l Lease) Err() error { return hold.Lease(l).Err() }

// Done returns a channel that closes when this lease ends, by its own Unlock or by loss. The
// channel of the zero Lease is closed.
func (l Lease) Done() <-chan struct{} { return hold.Lease(l).Done() }

// Deadline returns until when the lease can be trusted if no renewal succeeds any more, by this
// host's clock. Each renewal moves it. For a lost lease it returns when the lease was lost. After
// Unlock, and for the zero Lease, it returns the zero time.
func (l Lease) Deadline() time.Time { return hold.Lease(l).Deadline() }

// Wanted returns a channel that is closed when another session waits for the lock, if the lock has WithWanted; else it returns nil, as
// for the zero Lease. The lease stays: the holder decides when to unlock. It stays closed for this hold, also for the goroutines of
// the process that it is handed over to, and is not closed by the end of the lease; see Done. The channel of a multilock is closed with
// that of a member. No round trip.
func (l Lease) Wanted() <-chan struct{} { return hold.Lease(l).Wanted() }

// Bind returns a child of ctx that also ends with the lease, before the lock is released or handed
// over. context.Cause says why it ended: ErrReleased, ErrLost or ErrMaxHold. Its Err compares the
// clock itself. If the lease has ended, or is the zero Lease, the context has ended too. If ctx is
// nil, the context has ended with ErrBadOption as its cause. A call with this context does not
// enter the lock again; use Enter for that.
//
// It needs no cancel. Contexts that are bound to one lease and have the same parent share their
// state; so do contexts whose parents end with the same context. The state goes when the lease or
// that parent ends. So bind as often as you like, also to context.Background. A child with a cancel
// of its own, such as that of context.WithTimeout, must be cancelled as usual.
func (l Lease) Bind(ctx context.Context) context.Context { return hold.Lease(l).Bind(ctx) }

// Enter is Bind with the right to enter again: Lock and TryLock with the context that it returns,
// or with one made from that, enter the lock of this lease at once, without a round trip. That is
// how ownership travels, since a goroutine has no identity.
//
// It names the lease, not a goroutine: goroutines that use one Enter context do not exclude each
// other. If they must exclude each other, pass them Bind.
func (l Lease) Enter(ctx context.Context) context.Context { return hold.Lease(l).Enter(ctx) }

// Unlock ends the lease, here first and then on the server. It takes no context, so that it works
// when the request it was held for is over. The lock is released or handed over when the last of
// its leases ends; Unlock of the others costs no round trip.
//
// Unlock returns nil if the lock was released or handed over, and ErrNotHeld for a lease that was
// unlocked before. It returns ErrLost or ErrMaxHold if the lease had ended before: another holder
// may have worked meanwhile. If the server does not reply within a second, the
// error is ErrUnconfirmed, as *UnconfirmedError for errors.As, and the release is repeated in the
// background until the key has ended. It can take longer than a second with a client that Tune did not set up; see Tune.
func (l Lease) Unlock() error { return hold.Lease(l).Unlock() }

// Release is Unlock, for permits: defer lease.Release() reads right behind an Acquire.
func (l Lease) Release() error { return l.Unlock() }

// Place says where a lock is in the order in which package multilock acquires its members: by the slot
// that its key has in a cluster, or would have in one, and then by the key. The locks' method Place
// returns it. The zero Place belongs to no lock.
type Place opaquePlace
