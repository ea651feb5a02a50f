// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Like returns the request with which goroutines wait for a lock that uses g, if its holds are to be what r
// says: handed over, shared, or neither if r is zero. Without a queue at the server one goroutine tries at a
// time, with the request own, unless each has a channel of its own.
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

// meets reports whether the goroutines that wait for l wait for each other: one of them at a time asks the server.
func (l *Acquirer) sharesTickets() bool { return l.Request.ShareKey != local.ShareKey{} }

// share returns a lease of the hold that the session shares, if there is one that may be shared further.
func (l *Acquirer) joinShared(ctx context.Context) (hold.Lease, bool) {
	if l.Request.ShareKey.Policy != local.Shared {
		return hold.Lease{}, false
	}
	q := l.Manager.LocalQueues.Use(l.Keys.Holder)
	defer l.Manager.LocalQueues.Done(q)
	return q.JoinShared(ctx, l.Request.ShareKey, l)
}

// Share implements local.Sharer.
func (l *Acquirer) MayShare(ctx context.Context, lease hold.Lease) bool {
	reply, err := l.Base.Session.Runner.Run(ctx, wire.Call{Script: l.Manager.Share, Keys: l.Keys.All, Args: []string{lease.ID()}})
	return err == nil && reply.Code() == wire.Done
}
