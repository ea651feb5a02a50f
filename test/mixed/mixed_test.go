// SPDX-License-Identifier: Apache-2.0

package mixed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P4, P6: many kinds of lock are used at once, callers give up and sessions close. No two holders
// overlap that must not, no holder gets a false report, and nothing is left.
func TestAllKindsAtOnce(t *testing.T) {
	t.Parallel()
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	play(t, redistest.Start(t), func(round int) bool { return round < rounds })
}

func TestSoakAllKindsAtOnce(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	var mu sync.Mutex
	play(t, redistest.Start(t), func(int) bool {
		mu.Lock()
		defer mu.Unlock()
		return more()
	})
}

const callers, providers = 32, 3

// sessionProvider gives callers a session, which is closed and replaced now and then.
type sessionProvider struct {
	server  *redistest.Server
	session atomic.Pointer[providedSession]
}

// providedSession is a session, and whether it is about to be closed.
type providedSession struct {
	*signalbox.Session

	closing atomic.Bool
}

func (s *sessionProvider) replace(t *testing.T) error {
	t.Helper()
	old := s.session.Swap(&providedSession{Session: locktest.SteadySession(t, s.server)})
	if old == nil {
		return nil
	}
	old.closing.Store(true)
	return old.Close(locktest.Context(t))
}

func play(t *testing.T, server *redistest.Server, more func(round int) bool) {
	t.Helper()
	f := newFixture()
	var all [providers]sessionProvider
	for i := range all {
		all[i].server = server
		require.NoError(t, all[i].replace(t))
	}
	var taken, gaveUp, refused, closed atomic.Int64
	locktest.Together(t, callers, func(int) error {
		for round := 0; more(round); round++ {
			s := &all[rand.N(providers)]
			if rand.N(200) == 0 {
				if err := s.replace(t); err != nil {
					return fmt.Errorf("close: %w", err)
				}
			}
			at := s.session.Load()
			want := f.choose(at.Session)
			err := want.use(at)
			switch {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, signalbox.ErrHeld):
				refused.Add(1)
			case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errImpatient):
				gaveUp.Add(1)
			case errors.Is(err, signalbox.ErrClosed) && at.closing.Load():
				closed.Add(1)
			default:
				return fmt.Errorf("%v: %w", want.kind, err)
			}
		}
		return nil
	})
	t.Logf("%d taken, %d gave up, %d refused, %d closed", taken.Load(), gaveUp.Load(), refused.Load(), closed.Load())
	for i := range all {
		require.NoError(t, all[i].session.Load().Close(t.Context()))
	}
	view := locktest.NewView(t, server)
	redistest.Await(t, "no holds and no waiters", func() bool {
		_, held, err := view.Leaks()
		shared := server.MustDo(t, "KEYS", "mixed/redisson/*") // in which layout a lock has its name for a key
		return err == nil && len(held) == 0 && fmt.Sprint(shared) == "[]"
	})
	view.NoImmortals(t)
}

// errImpatient is that the caller gave up, as it meant to.
var errImpatient = errors.New("it gave up")

// use acquires the locks, is inside for a moment, and releases them.
func (a acquisition) use(at *providedSession) error {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	var impatient atomic.Bool
	if rand.N(4) == 0 {
		timer := time.AfterFunc(rand.N(3*time.Millisecond), func() { //nolint:forbidigo // a caller gives up
			impatient.Store(true)
			cancel()
		})
		defer timer.Stop()
	}
	call := a.lock
	if rand.N(5) == 0 {
		call = a.tryLock
	}
	lease, err := call(ctx)
	if err != nil {
		if errors.Is(err, context.Canceled) && impatient.Load() && !errors.Is(err, signalbox.ErrHeld) {
			return errImpatient
		}
		return err
	}
	for i, r := range a.resources {
		if err := r.enter(lease, a.capacity); err != nil {
			return fmt.Errorf("resource %d: %w", i, err)
		}
	}
	for range rand.N(20) {
		runtime.Gosched()
	}
	for _, r := range a.resources {
		r.leave(lease)
	}
	if err := lease.Unlock(); err != nil {
		if at.closing.Load() && (errors.Is(err, signalbox.ErrLost) || errors.Is(err, signalbox.ErrUnconfirmed)) {
			return nil
		}
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}
