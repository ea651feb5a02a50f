// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// BatchKey implements session.ManyReleaser. It returns the zero BatchKey if holds of the kind are released one by one.
func (a *Acquirer) BatchKey() session.BatchKey {
	if a.Manager.ReleaseMany == nil {
		return session.BatchKey{}
	}
	return session.BatchKey{Session: a.Base.Session, Node: a.Base.Session.NodeID(a.Names.Slot), Layout: a.Base.Layout}
}

// BatchKey implements session.ManyReleaser.
func (h *heldLock) BatchKey() session.BatchKey { return h.acquirer.BatchKey() }

// acquireBatch acquires locks of one kind in order by one call, as far as they are free and no goroutine of this
// session waits before the caller. If it cannot begin one hold, it keeps neither that one nor those that follow.
// The error is that of the call.
func acquireBatch(ctx context.Context, batch []*Acquirer) (leases []hold.Lease, err error) {
	requests := make([]queue.LockRequest, 0, len(batch))
	localQueues := make([]*waitroom.Room, 0, len(batch))
	for _, a := range batch {
		localQueue := a.Manager.LocalQueues.Use(a.Names.Holder)
		if !localQueue.TryJoint(ctx, a.Request.ShareKey) {
			localQueue.Done(a.Names.Holder)
			break
		}
		defer a.endLocalTry(localQueue)
		serverQueue, err := a.Manager.Queues.Begin(&a.Names)
		if err != nil {
			break
		}
		localQueues = append(localQueues, localQueue)
		requests = append(requests, queue.LockRequest{Queue: serverQueue, Request: cmp.Or(a.Request.Joint, a.Request)})
	}
	var attempts []*queue.Attempt
	if len(requests) > 1 {
		attempts, err = queue.AcquireMany(ctx, batch[0].Manager.AcquireMany, requests)
	}
	for i, request := range requests {
		switch {
		case i >= len(attempts):
			request.Queue.Done()
		case len(leases) < i:
			attempts[i].Abandon()
			attempts[i].Done()
		default:
			if lease, err := batch[i].beginHold(ctx, localQueues[i], new(heldLock), attempts[i], 0); err == nil {
				leases = append(leases, lease)
			}
		}
	}
	return leases, err
}

// manyRelease is a hold that is released together with others, and the destination of its error.
type manyRelease struct {
	queue.LockRelease

	lock   *heldLock
	result *error
}

// ReleaseMany implements session.ManyReleaser: holds that goroutines of this process wait for are handed over, and the others are
// released in one step.
func (h *heldLock) ReleaseMany(now timers.Instant, others []session.ManyReleaser) []error {
	results := make([]error, 1+len(others))
	var turnsOver, releases []*manyRelease
	for i := range results {
		lock := h
		if i > 0 {
			lock = others[i-1].(*heldLock) //nolint:errcheck,forcetypeassert // all holds of one batch have one type
		}
		r := &manyRelease{lock: lock, result: &results[i]}
		result := waitroom.NoWaiter
		if lock.localQueue != nil {
			result = lock.localQueue.HandOver(now, lock.acquirer.Request.ShareKey, lock)
		}
		switch result {
		case waitroom.HandedOver, waitroom.Kept: // a hold of several locks is not kept
		case waitroom.Refused:
			turnsOver = append(turnsOver, r)
		case waitroom.NoWaiter:
			if results[i] = lock.Term.Stop(now); results[i] == nil {
				releases = append(releases, r)
			}
		}
	}
	h.releaseTogether(now, releases)
	for _, r := range turnsOver {
		*r.result = r.lock.endTurn(now)
	}
	return results
}

// releaseTogether releases holds whose terms have stopped.
func (h *heldLock) releaseTogether(now timers.Instant, releases []*manyRelease) {
	if len(releases) == 0 {
		return
	}
	left, all := time.Duration(math.MaxInt64), make([]*queue.LockRelease, len(releases))
	for i, r := range releases {
		lock := r.lock
		left = min(left, lock.Term.Deadline().Until(now))
		serverAttempt := lock.serverHold.(*queue.Attempt) //nolint:errcheck,forcetypeassert // a kind with ReleaseMany has a queue at the server
		r.LockRelease = queue.LockRelease{Attempt: serverAttempt, LastUsed: lock.lastUsed(), ExpiresIn: lock.serverLife()}
		all[i] = &r.LockRelease
	}
	patience := h.acquirer.Base.Session.PatientUnlock(left)
	defer patience.End()
	queue.ReleaseMany(patience, h.acquirer.Manager.ReleaseMany, all)
	for _, r := range releases {
		*r.result = r.lock.releaseError(r.WasHeld, r.Err, errs.ErrLostGone)
		r.lock.finish()
	}
}

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
