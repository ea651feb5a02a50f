// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
)

// Shard is the ownership of one shard by a member, from its grant to its release. It is a small value, free to
// copy; all copies are the same ownership, and any goroutine may use it. The zero Shard owns nothing: its Err is
// signalbox.ErrNotHeld.
//
// It ends when the shard is asked for, when the member's lease is about to end (a third of the lease before
// that), and by Release. The server keeps the shard for the member until Release, as long as the lease lasts.
type Shard struct{ grant *grant }

// Index returns the index of a shard of Count, and -1 for one of Names.
func (s Shard) Index() int {
	if s.grant == nil {
		return -1
	}
	return s.grant.index
}

// Name returns the name of the shard: of a shard of Count the index, in decimal.
func (s Shard) Name() string {
	if s.grant == nil {
		return ""
	}
	return s.grant.name
}

// Count returns how many shards the set had when this one was granted: for Index. It is 0 for one of Names.
func (s Shard) Count() int {
	if s.grant == nil {
		return 0
	}
	return s.grant.count
}

// Token returns the fencing token. It is greater than that of every earlier owner of any shard of the group. Hand
// it to what the owner changes, and let that refuse smaller ones. The zero Shard returns 0.
func (s Shard) Token() uint64 {
	if s.grant == nil {
		return 0
	}
	return s.grant.stamp.Token()
}

// Since returns when the shard was granted, by the server's clock.
func (s Shard) Since() time.Time {
	if s.grant == nil {
		return time.Time{}
	}
	return s.grant.stamp.Time()
}

// Losses returns how many owners before this one, in a row, lost their lease while they owned the shard. A shard
// whose work kills its process has a number that grows.
func (s Shard) Losses() int {
	if s.grant == nil {
		return 0
	}
	return s.grant.losses
}

// Err returns nil while the work may continue, else why it must stop: ErrMoved, ErrRemoved, ErrResized, ErrLeft,
// signalbox.ErrLost, or signalbox.ErrReleased. It compares the clock itself: if the lease ended while the process
// was paused, the first call returns that. No round trip.
func (s Shard) Err() error {
	if s.grant == nil {
		return errs.ErrNotHeld
	}
	return s.grant.err()
}

// Done returns a channel that is closed when Err returns an error. That of the zero Shard is closed.
func (s Shard) Done() <-chan struct{} {
	if s.grant == nil {
		return signalbox.Lease{}.Done()
	}
	return s.grant.root.Done()
}

// Deadline returns until when the work may continue if no renewal succeeds any more, by this host's clock. All
// shards of a member have the same one, and each renewal moves it. It returns the zero time if Err returns an
// error.
func (s Shard) Deadline() time.Time {
	if s.grant == nil || s.grant.err() != nil {
		return time.Time{}
	}
	at := time.Now() // read before the clock of left, so that a pause between the two makes it too early
	return at.Add(s.grant.membership.left())
}

// Bind returns a child of ctx that also ends when Err returns an error, with that as its context.Cause. Its Err
// compares the clock itself. If ctx is nil, the context has ended with ErrBadOption as its cause.
//
// It needs no cancel. Contexts that are bound to one ownership and have the same parent share their state, which goes when the ownership
// or that parent ends. So bind as often as you like.
func (s Shard) Bind(ctx context.Context) context.Context {
	if s.grant == nil || ctx == nil {
		return signalbox.Lease{}.Bind(ctx)
	}
	return s.grant.bonds.Bind(ctx, s.grant.root, s.grant.err)
}

// Release gives the shard to the next owner. Call it when the work has stopped, also if the lease was lost; Run
// does it. A shard that was not asked for does not come back to this member for DefaultElsewhere.
//
// It sends nothing itself: the member releases all shards of some milliseconds in one request, and repeats that until the
// server replies. Release returns nil if the shard was owned until now. Otherwise it returns signalbox.ErrLost if the lease
// was lost before, and signalbox.ErrNotHeld if the shard was released before.
func (s Shard) Release() error {
	if s.grant == nil {
		return errs.ErrNotHeld
	}
	return s.grant.release(release{elsewhere: DefaultElsewhere})
}
