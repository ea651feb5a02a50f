// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P9: a reentrant and a fair lock of one name are one lock, within a session and between sessions. The context of the
// one enters the other, and each waits in the other's queue.
func TestReentrantAndFairAreOneLock(t *testing.T) {
	t.Parallel()
	for _, modes := range [][2]locktest.Primitive{{locktest.Reentrant(), locktest.Fair()}, {locktest.Fair(), locktest.Reentrant()}} {
		t.Run(modes[0].Name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, lockKind{Primitive: modes[0], enters: true}, common)
			one, other := modes[0], modes[1]
			session := f.session()
			held := f.must(of(one, session, f.name))
			for _, where := range []*signalbox.Session{session, f.session()} {
				require.ErrorIs(t, second(of(other, where, f.name).TryLock(t.Context())), signalbox.ErrHeld)
			}
			again := f.again(of(other, session, f.name), held)
			require.Equal(t, held.Token(), again.Token())
			h, err := of(other, f.session(), f.name).(reportsHolder).Holder(t.Context())
			require.NoError(t, err)
			require.Equal(t, one.Name, h.Kind, "the mode of the hold, for any caller")
			waiting := f.wait(t.Context(), of(other, f.session(), f.name), 1)
			require.NoError(t, held.Unlock())
			require.False(t, locktest.IsClosed(waiting))
			require.NoError(t, again.Unlock())
			next := locktest.MustHave(t, waiting)
			require.Greater(t, next.Token(), held.Token())
			require.NoError(t, next.Unlock())
			f.awaitFree()
		})
	}
}

// rollingService is a service of several processes that change from one mode of a lock to the other while they use it.
type rollingService struct {
	*fixture

	uses int // the number of uses by each goroutine of a process before the process may change
	made atomic.Int64

	// The next two are guarded by the lock under test alone: the race detector sees a second holder.
	count int64
	token uint64
}

// serviceProcess is one process of the service.
type serviceProcess struct {
	service   *rollingService
	session   *signalbox.Session
	lock      anyLock
	stop      chan struct{}
	allUndone sync.WaitGroup // ends when all goroutines have taken the lock often enough
	group     sync.WaitGroup
	failed    atomic.Pointer[error]
}

// start begins a process that uses the lock in one mode.
func (r *rollingService) start(mode locktest.Primitive, goroutines int) *serviceProcess {
	r.Helper()
	session := r.session()
	p := &serviceProcess{service: r, session: session, lock: of(mode, session, r.name), stop: make(chan struct{})}
	p.allUndone.Add(goroutines)
	for range goroutines {
		p.group.Go(func() {
			undone := sync.OnceFunc(p.allUndone.Done)
			defer undone()
			for n := 1; !locktest.IsClosed(p.stop); n++ {
				if err := p.use(); err != nil {
					p.failed.CompareAndSwap(nil, &err)
					return
				}
				if n == r.uses {
					undone()
				}
			}
		})
	}
	return p
}

// use takes the lock once and counts.
func (p *serviceProcess) use() error {
	r := p.service
	return p.lock.Do(r.Context(), func(_ context.Context, lease signalbox.Lease) error {
		if lease.Token() <= r.token {
			return fmt.Errorf("the token %d comes after %d", lease.Token(), r.token)
		}
		r.token = lease.Token()
		r.count++
		r.made.Add(1)
		return nil
	})
}

// end stops a process.
func (p *serviceProcess) end() {
	p.service.Helper()
	close(p.stop)
	p.group.Wait()
	if err := p.failed.Load(); err != nil {
		require.NoError(p.service, *err)
	}
	require.NoError(p.service, p.session.Close(p.service.Context()))
}

// P1, P3, P6: while the processes of a service change from reentrant to fair and back, one after the other and under load, no
// use is lost, no token falls, and every call returns.
func TestRollingChangeOfTheModeLosesNothing(t *testing.T) {
	t.Parallel()
	const goroutines = 4
	r := &rollingService{fixture: newFixture(t, lockKind{Primitive: locktest.Reentrant(), enters: true}, common), uses: redistest.Rounds(10, 100)}
	processes := make([]*serviceProcess, 4)
	for i := range processes {
		processes[i] = r.start(locktest.Reentrant(), goroutines)
	}
	for _, mode := range []locktest.Primitive{locktest.Fair(), locktest.Reentrant()} {
		for i, old := range processes {
			old.allUndone.Wait()
			processes[i] = r.start(mode, goroutines)
			processes[i].allUndone.Wait()
			old.end()
		}
	}
	for _, p := range processes {
		p.end()
	}
	require.Equal(t, r.made.Load(), r.count)
	r.awaitFree()
}
