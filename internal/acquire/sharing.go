// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// ShareKeyFor returns the share key of the goroutines that wait for a lock of that kind. key says what becomes of the
// holds: they are handed over, shared, or neither if key is zero. Without a queue at the server one goroutine tries at
// a time, with the share key own, unless each has a channel of its own.
func ShareKeyFor(kind *layout.Kind, key, own local.ShareKey) local.ShareKey {
	retry, none := kind.Retry, local.ShareKey{}
	switch {
	case retry == nil, key.Policy == local.Shared, retry.HandsOver && key != none:
		return key
	case retry.ChannelPerWaiter:
		return none
	}
	return own
}

// sharesTickets reports whether goroutines of the process that wait for the lock share a ticket: one at a time asks the server.
func (a *Acquirer) sharesTickets() bool { return a.Request.ShareKey != local.ShareKey{} }

// joinShared returns a lease of the hold that the session shares, if there is one that may be shared further.
func (a *Acquirer) joinShared(ctx context.Context) (hold.Lease, bool) {
	if a.Request.ShareKey.Policy != local.Shared {
		return hold.Lease{}, false
	}
	q := a.Manager.LocalQueues.Use(a.Keys.Holder)
	defer q.Done(a.Keys.Holder)
	return q.JoinShared(ctx, a.Request.ShareKey, a)
}

// MayShare implements local.TicketSource.
func (a *Acquirer) MayShare(ctx context.Context, lease hold.Lease) bool {
	reply, err := a.Base.Session.Runner.Run(ctx, wire.Call{Script: a.Manager.Share, Keys: a.Keys.All, Args: []string{lease.ID()}})
	return err == nil && reply.Code() == wire.Done
}
