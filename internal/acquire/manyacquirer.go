// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// maxBatch bounds how many locks one script acquires: 64 locks keep a server busy for some 0.1 ms.
const maxBatch = 64

// manyAcquirer is an Exclusive that is acquired together with others.
type manyAcquirer Exclusive

// AcquireMany implements session.ManyAcquirer.
//
// The caller waits for this lock while it holds none of the locks that follow: they are tried, never waited for. So a waiter holds
// only what is before it in order.
func (m *manyAcquirer) AcquireMany(ctx context.Context, following []session.ManyAcquirer) ([]hold.Lease, error) {
	leases, _ := m.acquireTogether(ctx, following) // what went wrong is found out by the call for this lock alone
	if len(leases) > 0 {
		return leases, nil
	}
	return asList((*Exclusive)(m).Acquire(ctx))
}

// TryAcquireMany implements session.ManyAcquirer. It does not repeat a call that may have been executed: the second
// call could find the lock held by the first one.
func (m *manyAcquirer) TryAcquireMany(ctx context.Context, following []session.ManyAcquirer) ([]hold.Lease, error) {
	leases, err := m.acquireTogether(ctx, following)
	switch {
	case len(leases) > 0:
		return leases, nil
	case err != nil && wire.Judge(err) == wire.Unknown && !wire.CrossSlot(err):
		return nil, CutShort(ctx, err)
	}
	return asList((*Exclusive)(m).TryAcquire(ctx))
}

// acquireTogether acquires the lock, and as many of the following ones as one call gets.
func (m *manyAcquirer) acquireTogether(ctx context.Context, following []session.ManyAcquirer) ([]hold.Lease, error) {
	e := (*Exclusive)(m)
	if batch := e.batch(ctx, following); len(batch) > 1 {
		return acquireBatch(ctx, batch)
	}
	return nil, nil
}

func asList(lease hold.Lease, err error) ([]hold.Lease, error) {
	if err != nil {
		return nil, err
	}
	return []hold.Lease{lease}, nil
}

// batch returns the lock, and those of the following locks that the same script can acquire.
func (e *Exclusive) batch(ctx context.Context, following []session.ManyAcquirer) []*Acquirer {
	if !e.mayJoinBatch(ctx) {
		return nil
	}
	batch, spans := []*Acquirer{&e.Acquirer}, false
	for _, other := range following {
		g, is := other.(*manyAcquirer)
		next := (*Exclusive)(g)
		if !is || len(batch) == maxBatch || next.BatchKey() != e.BatchKey() || !next.mayJoinBatch(ctx) {
			break
		}
		if next.Names.Slot != e.Names.Slot && !spans {
			// At the shard of another key the script would acquire a lock that another session may hold.
			if spans = e.Session.Runner.Span.CertainlySpansSlots(ctx); !spans {
				break
			}
		}
		batch = append(batch, &next.Acquirer)
	}
	return batch
}

// mayJoinBatch reports whether one script may acquire the lock with others: it waits for no replicas, and ctx
// does not carry it.
func (e *Exclusive) mayJoinBatch(ctx context.Context) bool {
	if ctx == nil || ctx.Err() != nil || e.CheckArgs() != nil || e.Replicas.Count > 0 {
		return false
	}
	_, carried := hold.Carried(ctx, e.Scope, e.Names.Holder)
	return !carried
}
