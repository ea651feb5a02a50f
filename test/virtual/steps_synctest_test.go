// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
)

// steppedLife is the life of the leases in these tests.
const steppedLife = 10 * time.Second

// twoProcesses are two processes that want the same lock, on hosts whose wall clocks are set alike.
type twoProcesses struct {
	*testing.T

	first, second locktest.Lock // locks that exclude each other
	wires         []*wire       // the wires of the holder's session
	others        []*wire
	scripts       func() int64
	servers       int64 // the number of servers to which each renewal goes
}

// set sets the wall clock by so many leases. The monotonic clock and those of the servers stay.
func (p *twoProcesses) set(leases float64) {
	clock.Skew(time.Duration(leases * float64(steppedLife)))
}

// untilRequested returns when the next script has been executed.
func (p *twoProcesses) untilRequested() {
	for before := p.scripts(); p.scripts() == before; {
		time.Sleep(time.Millisecond)
	}
}

// cutOff lets nothing pass between my process and the servers any more.
func (p *twoProcesses) cutOff() {
	for _, w := range p.wires {
		w.goSilent()
	}
}

// must returns the lease of a Lock that has to succeed, within two leases.
func (p *twoProcesses) must(mu locktest.Lock) signalbox.Lease {
	p.Helper()
	began := time.Now()
	lease, err := mu.Lock(p.Context())
	require.NoError(p, err)
	require.LessOrEqual(p, time.Since(began), 2*steppedLife)
	return lease
}

// lasts checks that a lease is renewed at its pace, and that no other session has the lock
// meanwhile.
func (p *twoProcesses) lasts(lease signalbox.Lease) {
	p.Helper()
	before := p.scripts()
	for range 40 {
		time.Sleep(steppedLife / 4)
		require.NoError(p, lease.Err())
		require.Positive(p, time.Until(lease.Deadline()))
	}
	renewals := (p.scripts() - before) / p.servers
	require.GreaterOrEqual(p, renewals, int64(29))
	require.LessOrEqual(p, renewals, int64(64), "a multilock renews two keys, and once more at first")
	_, err := p.second.TryLock(p.Context())
	require.ErrorIs(p, err, signalbox.ErrHeld)
}

// stepped is a kind of lock with a fixture of its own.
type stepped struct {
	name string
	run  func(t *testing.T, options []signalbox.LockOption, test func(p *twoProcesses))
}

// steppedKinds returns every kind of lock that has leases.
func steppedKinds() []stepped {
	one := func(of func(s *signalbox.Session, options []signalbox.LockOption) (mine, theirs locktest.Lock)) func(*testing.T, []signalbox.LockOption, func(*twoProcesses)) {
		return func(t *testing.T, options []signalbox.LockOption, test func(p *twoProcesses)) {
			t.Helper()
			bubble(t, func(f *fixture) {
				s, mine, closeMine := f.session(f.T)
				defer closeMine()
				other, theirs, closeTheirs := f.session(f.T)
				defer closeTheirs()
				mine.latency.Store(int64(steppedLife / 100))
				theirs.latency.Store(int64(steppedLife / 100))
				p := &twoProcesses{T: f.T, wires: []*wire{mine}, others: []*wire{theirs}, scripts: f.scripts.Load, servers: 1}
				p.first, _ = of(s, options)
				_, p.second = of(other, options)
				p.start(test)
			})
		}
	}
	kinds := []stepped{
		{"reader", one(func(s *signalbox.Session, o []signalbox.LockOption) (mine, theirs locktest.Lock) {
			return locktest.Reader().New(s, "a", o...), locktest.Writer().New(s, "a", o...)
		})},
		{"multilock", one(func(s *signalbox.Session, o []signalbox.LockOption) (mine, theirs locktest.Lock) {
			all := multilock.New(locktest.Reentrant().New(s, "a", o...).(multilock.Member), locktest.Fair().New(s, "b", o...).(multilock.Member))
			return all, all
		})},
		{"redlock", steppedQuorum},
	}
	for _, kind := range append(locktest.Primitives(), locktest.RedissonReentrant()) {
		kinds = append(kinds, stepped{kind.Name, one(func(s *signalbox.Session, o []signalbox.LockOption) (mine, theirs locktest.Lock) {
			mu := kind.New(s, "a", o...)
			return mu, mu
		})})
	}
	return kinds
}

func steppedQuorum(t *testing.T, options []signalbox.LockOption, test func(p *twoProcesses)) {
	t.Helper()
	bubbleOf(t, 3, func(r *redlockServers) {
		r.makeReady()
		mine, wires := r.process()
		theirs, others := r.process()
		for _, w := range append(others, wires...) {
			w.latency.Store(int64(steppedLife / 100))
		}
		p := &twoProcesses{T: r.T, wires: wires, others: others, servers: 3}
		p.scripts = func() (n int64) {
			for _, f := range r.servers {
				n += f.commands.Load()
			}
			return n
		}
		p.first, p.second = redlock.New(mine, "a", options...), redlock.New(theirs, "a", options...)
		p.start(test)
	})
}

// start runs a test between two processes that have met the server.
func (p *twoProcesses) start(test func(p *twoProcesses)) {
	defer clock.Skew(0)
	for _, mu := range []locktest.Lock{p.first, p.second} {
		require.NoError(p, p.must(mu).Unlock())
		time.Sleep(time.Second)
	}
	test(p)
}

// eachStep runs a test of every kind for every one of these steps, which are in leases.
func eachStep(t *testing.T, steps []float64, test func(p *twoProcesses, leases float64), options ...signalbox.LockOption) {
	t.Helper()
	if len(options) == 0 {
		options = []signalbox.LockOption{signalbox.WithRenewedLease(steppedLife)}
	}
	every := redistest.Rounds(5, 1)
	for i, kind := range steppedKinds() {
		for j, leases := range steps {
			if (i+j)%every != 0 {
				continue
			}
			t.Run(fmt.Sprint(kind.name, "/", leases), func(t *testing.T) {
				kind.run(t, options, func(p *twoProcesses) { test(p, leases) })
			})
		}
	}
}

// small are the steps that end no lease: every one back, and those forward by less than a lease has
// left.
func small() []float64 { return []float64{-10, -1, -0.4, -0.1, 0.1, 0.5} }

// large are the steps forward that end a lease.
func large() []float64 { return []float64{1, 10} }

// P2: a holder keeps its lease when the wall clock is set back, and when it is set forward by less
// than the lease.
func TestAHolderKeepsItsLeaseOverAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, small(), func(p *twoProcesses, leases float64) {
		lease := p.must(p.first)
		time.Sleep(steppedLife / 2)
		p.set(leases)
		p.lasts(lease)
		require.NoError(p, lease.Unlock())
		require.NoError(p, p.must(p.second).Unlock())
	})
}

// P2: the same if the step comes while a renewal is under way.
func TestARenewalSurvivesAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, small(), func(p *twoProcesses, leases float64) {
		lease := p.must(p.first)
		time.Sleep(steppedLife / 3) // it has its whole lease
		p.untilRequested()
		p.set(leases)
		p.lasts(lease)
		require.NoError(p, lease.Unlock())
	})
}

// P2: the same if it comes while the acquire is under way.
func TestAnAcquireSurvivesAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, append(small(), large()...), func(p *twoProcesses, leases float64) {
		time.AfterFunc(steppedLife/100+time.Millisecond, func() { p.set(leases) })
		lease := p.must(p.first)
		p.lasts(lease)
		require.NoError(p, lease.Unlock())
	})
}

// P2: a lease ends at once by a wall clock that is set forward by more than it has left, and the
// next one is as good as ever.
func TestALeaseEndsByAWallClockSetForward(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, large(), func(p *twoProcesses, leases float64) {
		lease := p.must(p.first)
		time.Sleep(steppedLife / 2)
		p.set(leases)
		require.ErrorIs(p, lease.Err(), signalbox.ErrLost)
		require.ErrorIs(p, lease.Unlock(), signalbox.ErrLost)
		require.NoError(p, p.must(p.second).Unlock())
		lease = p.must(p.first)
		p.lasts(lease)
		require.NoError(p, lease.Unlock())
	})
}

// P6: a waiter has the lock as soon as it is unlocked, whatever was done to the wall clock
// meanwhile.
func TestAWaiterIsGrantedOnTimeAfterAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	// Four round trips: a multilock asks for several locks at once, learns that one has a queue, and
	// releases them by a script that the server may not know yet; then the waiter acquires the others.
	const onTime = 4 * 2 * steppedLife / 100
	eachStep(t, append(small(), large()...), func(p *twoProcesses, leases float64) {
		held := p.must(p.second)
		waiter := queuedAndListening(p.Context(), p.first)
		time.Sleep(steppedLife)
		p.set(leases)
		if leases < 1 {
			time.Sleep(steppedLife)
		}
		unlocked := time.Now()
		err := held.Unlock()
		got := <-waiter
		require.NoError(p, got.err)
		if leases < 1 {
			require.NoError(p, err)
			require.LessOrEqual(p, got.at.Sub(unlocked), onTime)
		} else {
			require.ErrorIs(p, err, signalbox.ErrLost)
			// A wall clock that leaps seems like a sleep: the connection for messages is suspected, and may be made anew at
			// the moment in which the hold ends. A lost message costs a second: 10.8 s of 10 were seen.
			require.LessOrEqual(p, got.at.Sub(unlocked), steppedLife+1100*time.Millisecond)
		}
		p.lasts(got.lease)
		require.NoError(p, got.lease.Unlock())
	})
}

// P6: a waiter has the lock of a holder that died when its lease has ended, whatever was done to
// the wall clock.
func TestAWaiterOutlivesADeadHolderOverAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, append(small(), large()...), func(p *twoProcesses, leases float64) {
		lease := p.must(p.first)
		waiter := queuedAndListening(p.Context(), p.second)
		time.Sleep(steppedLife)
		p.cutOff()
		died := time.Now()
		p.set(leases)
		got := <-waiter
		require.NoError(p, got.err)
		require.LessOrEqual(p, got.at.Sub(died), steppedLife+2*time.Second)
		require.Error(p, lease.Err(), "two hold it")
		require.NoError(p, got.lease.Unlock())
	})
}

// P1, P2: a lease that was waited for over a step is not trusted for longer than the server keeps
// it.
func TestALeaseIsNotTrustedTooLongAfterAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, append(small(), large()...), func(p *twoProcesses, leases float64) {
		held := p.must(p.second)
		waiter := queuedAndListening(p.Context(), p.first)
		p.set(leases)
		_ = held.Unlock()
		got := <-waiter
		require.NoError(p, got.err)
		p.cutOff()
		for {
			lease, err := p.second.TryLock(p.Context())
			if err == nil {
				require.ErrorIs(p, got.lease.Err(), signalbox.ErrLost, "two hold it")
				require.NoError(p, lease.Unlock())
				return
			}
			require.ErrorIs(p, err, signalbox.ErrHeld)
			require.Less(p, time.Since(got.at), 2*steppedLife)
			time.Sleep(steppedLife / 100)
		}
	})
}

// P4: what a call of unknown outcome left is undone, even if the wall clock was set forward
// meanwhile.
func TestACallIsUndoneAfterAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	eachStep(t, large(), func(p *twoProcesses, leases float64) {
		for _, w := range p.wires {
			w.swallowsReplies.Store(true)
		}
		ctx, cancel := context.WithTimeout(p.Context(), time.Second/2)
		defer cancel()
		_, err := p.first.TryLock(ctx)
		require.ErrorIs(p, err, context.DeadlineExceeded)
		p.set(leases)
		time.Sleep(time.Second)
		for _, w := range p.wires {
			w.heal()
		}
		healed := time.Now()
		require.NoError(p, p.must(p.second).Unlock())
		require.LessOrEqual(p, time.Since(healed), 3*time.Second)
	})
}

// P2: a lease that has an end lasts until then if the wall clock is set back, and not for longer.
func TestAnEndIsKeptOverAStep(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for name, c := range map[string]struct { //nolint:paralleltest // sets the clock of the process
		options []signalbox.LockOption
		lasts   time.Duration
		cause   error
	}{
		"FixedLease": {[]signalbox.LockOption{signalbox.WithFixedLease(steppedLife)}, steppedLife, signalbox.ErrLost},
		"MaxHold": {
			[]signalbox.LockOption{signalbox.WithRenewedLease(steppedLife), signalbox.WithMaxHold(3 * steppedLife)},
			3 * steppedLife, signalbox.ErrMaxHold,
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachStep(t, []float64{-10, -1, -0.4, -0.1}, func(p *twoProcesses, leases float64) {
				began := time.Now()
				lease := p.must(p.first)
				time.Sleep(steppedLife / 4)
				p.set(leases)
				time.Sleep(c.lasts - time.Since(began) - steppedLife/20)
				require.NoError(p, lease.Err())
				time.Sleep(steppedLife / 10)
				require.ErrorIs(p, lease.Err(), c.cause)
				require.NoError(p, p.must(p.second).Unlock())
			}, c.options...)
		})
	}
}
