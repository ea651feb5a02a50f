// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// What no New made, and what New made of a session that is nil, is the error of every call, and no panic.
func TestAnInvalidLockReturnsItsErrorFromEveryCall(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][]func(context.Context) error{
		"reentrant":           ofLock(new(reentrant.Lock)),
		"reentrant/nil":       ofLock(reentrant.New(nil, "a")),
		"fair":                ofLock(new(fair.Lock)),
		"fair/nil":            ofLock(fair.New(nil, "a")),
		"rwlock":              ofReadWrite(new(rwlock.Lock)),
		"rwlock/nil":          ofReadWrite(rwlock.New(nil, "a")),
		"semaphore":           ofSemaphore(new(semaphore.Semaphore)),
		"semaphore/nil":       ofSemaphore(semaphore.New(nil, "a", 1)),
		"countdown":           ofLatch(new(countdown.Latch)),
		"countdown/nil":       ofLatch(countdown.New(nil, "a")),
		"election":            ofElection(new(election.Election)),
		"election/nil":        ofElection(election.New(nil, "a")),
		"shards":              ofShards(new(shards.Group)),
		"shards/nil":          ofShards(shards.New(nil, "a", shards.Count(1))),
		"redlock":             ofLock(new(redlock.Lock)),
		"redlock/nil":         ofLock(redlock.New(nil, "a")),
		"redlock/nils":        ofLock(redlock.New(make([]*signalbox.Session, 3), "a")),
		"multilock":           ofLock(new(multilock.Lock)),
		"multilock/none":      ofLock(multilock.New()),
		"multilock/reentrant": ofLock(multilock.New(new(reentrant.Lock))),
		"multilock/semaphore": ofLock(multilock.New(new(semaphore.Semaphore).Permits(1))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, call := range calls {
				require.ErrorIs(t, call(t.Context()), signalbox.ErrBadOption, "call %d", i)
			}
		})
	}
}

// locker is what locks of all kinds have.
type locker interface {
	Check() error
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
	Do(ctx context.Context, fn func(context.Context, signalbox.Lease) error) error
}

// holderReporter is a lock that reports its holder.
type holderReporter interface {
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// errorOf returns the error of a call that returns two values.
func errorOf[T any](call func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx)
		return err
	}
}

func ofLock(l locker) []func(context.Context) error {
	calls := []func(context.Context) error{
		func(context.Context) error { return l.Check() },
		errorOf(l.Lock),
		errorOf(l.TryLock),
		func(ctx context.Context) error {
			return l.Do(ctx, func(context.Context, signalbox.Lease) error { return nil })
		},
	}
	if l, is := l.(holderReporter); is {
		calls = append(calls, errorOf(l.IsLocked), l.ForceUnlock)
	}
	if l, is := l.(interface {
		Holder(ctx context.Context) (signalbox.Holder, error)
	}); is {
		calls = append(calls, errorOf(l.Holder))
	}
	return calls
}

func ofReadWrite(l *rwlock.Lock) []func(context.Context) error {
	return append(ofLock(l), errorOf(l.RLock), errorOf(l.TryRLock), errorOf(l.Reader().Lock), func(ctx context.Context) error {
		for _, err := range l.Holders(ctx) {
			return err
		}
		return nil
	})
}

func ofSemaphore(s *semaphore.Semaphore) []func(context.Context) error {
	return []func(context.Context) error{
		func(context.Context) error { return s.Check() },
		func(ctx context.Context) error {
			_, err := s.Acquire(ctx, 1)
			return err
		},
		func(ctx context.Context) error {
			_, err := s.TryAcquire(ctx, 1)
			return err
		},
		func(ctx context.Context) error { return s.SetCapacity(ctx, 1) },
		errorOf(s.Available),
		errorOf(s.Permits(1).Lock),
		func(ctx context.Context) error { return s.Weighted(ctx).Acquire(ctx, 1) },
		func(ctx context.Context) error {
			for _, err := range s.Holders(ctx) {
				return err
			}
			return nil
		},
	}
}

func ofLatch(l *countdown.Latch) []func(context.Context) error {
	return []func(context.Context) error{
		func(context.Context) error { return l.Check() },
		func(ctx context.Context) error {
			_, err := l.Start(ctx, 1)
			return err
		},
		errorOf(l.Round),
		l.Reset,
	}
}

func ofShards(g *shards.Group) []func(context.Context) error {
	return []func(context.Context) error{
		func(context.Context) error { return g.Check() },
		errorOf(g.Join),
		errorOf(g.View),
		g.Health,
		func(ctx context.Context) error {
			return g.Run(ctx, func(context.Context, shards.Shard) error { return nil })
		},
		func(ctx context.Context) error { return g.Resize(ctx, 2) },
		func(ctx context.Context) error { return g.Sync(ctx, nil) },
		func(ctx context.Context) error { return g.Move(ctx, "0", "") },
		func(ctx context.Context) error {
			_, err := g.Owner(ctx, "0")
			return err
		},
	}
}

func ofElection(e *election.Election) []func(context.Context) error {
	return []func(context.Context) error{
		func(context.Context) error { return e.Check() },
		errorOf(e.Campaign),
		errorOf(e.Leader),
		e.Health,
		func(ctx context.Context) error {
			return e.Run(ctx, func(context.Context, election.Term) error { return nil })
		},
		func(ctx context.Context) error {
			for _, err := range e.Observe(ctx) {
				return err
			}
			return nil
		},
	}
}
