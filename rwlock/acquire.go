// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
)

// acquirerCall is Acquire or TryAcquire.
type acquirerCall func(*acquire.Acquirer, context.Context) (hold.Lease, error)

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	return l.write(ctx, (*acquire.Acquirer).Acquire)
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	return l.write(ctx, (*acquire.Acquirer).TryAcquire)
}

func (l *Lock) rLock(ctx context.Context) (hold.Lease, error) {
	return l.read(ctx, (*acquire.Acquirer).Acquire)
}

func (l *Lock) tryRLock(ctx context.Context) (hold.Lease, error) {
	return l.read(ctx, (*acquire.Acquirer).TryAcquire)
}

func (l *Lock) write(ctx context.Context, take acquirerCall) (hold.Lease, error) {
	lease, carried, err := l.enterToWrite(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := l.writer.BeginCall(ctx)
	lease, err = take(&l.writer, ctx)
	return lease.Observe(call, err)
}

func (l *Lock) read(ctx context.Context, take acquirerCall) (hold.Lease, error) {
	lease, carried, err := l.enterToRead(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := l.writer.BeginSharedCall(ctx)
	lease, err = take(&l.reader, ctx)
	return lease.Observe(call, err)
}

// enterToWrite enters the writer's lease that ctx carries. It returns ErrUpgrade if ctx carries a reader's.
func (l *Lock) enterToWrite(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().CheckArgs(); err != nil {
		return hold.Lease{}, false, err
	}
	lease, carried, err = l.writer.Enter(ctx, &l.registry.writers)
	if carried || err != nil {
		return lease, carried, err
	}
	if _, carried = hold.Carried(ctx, &l.registry.readers, l.writer.Names.Holder); carried {
		return hold.Lease{}, true, errs.ErrUpgrade
	}
	return hold.Lease{}, false, nil
}

// enterToRead enters the lease that ctx carries, a writer's or a reader's. It tries the writer's first: if that
// is downgraded meanwhile, the second try finds it.
func (l *Lock) enterToRead(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().CheckArgs(); err != nil {
		return hold.Lease{}, false, err
	}
	lease, carried, err = l.writer.Enter(ctx, &l.registry.writers)
	if carried || err != nil {
		return lease, carried, err
	}
	return l.writer.Enter(ctx, &l.registry.readers)
}

// shareKey returns the terms by which readers share a hold. It is zero if the time of each reader counts from its own beginning, or
// if each waits for replicas.
func shareKey(s *session.Resolved) waitroom.ShareKey {
	terms := s.Terms
	if terms.Fixed || terms.MaxHold > 0 || s.Replicas.Count > 0 {
		return waitroom.ShareKey{}
	}
	return waitroom.ShareKey{Policy: waitroom.Shared, Concurrent: true, Lease: terms.Lease, FirstLease: terms.First()}
}
