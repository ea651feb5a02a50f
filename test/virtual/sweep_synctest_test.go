// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// The lease of a trial is much longer than the 3 s for which an acquire waits for the server, so that what it leaves is seen;
// or it is shorter than that, and a request can come too late for it.
const (
	longTerm  = 30 * time.Second
	shortTerm = 2 * time.Second
)

const (
	briefDelay = 30 * time.Millisecond
	longDelay  = 1300 * time.Millisecond // the client gives up a silent connection before
	undone     = 8 * time.Second         // after which nothing is left of a call that failed
)

// trialEnd is when the context of a trial ends.
type trialEnd int

const (
	never   trialEnd = iota
	before           // as the request arrives at the server
	atFault          // when the fault happens: if the fault is that of a reply, after the request was executed
)

// sweepTrial is an acquire of which some requests fail.
type sweepTrial struct {
	acquireScenario

	step   int // the request at which it is cancelled, which is the first that fails, from 1
	term   time.Duration
	faults []redistest.Fault
	cancel trialEnd
}

func (t sweepTrial) String() string {
	return fmt.Sprintf("%s, lease of %v, request %d, %v, cancelled %d", t.name, t.term, t.step, t.faults, t.cancel)
}

// faultsOfScript returns every fault for one request. Delays are also longer than the client waits for a silent connection, and
// longer than a short lease.
func faultsOfScript(step int, term time.Duration) (faults []redistest.Fault) {
	for _, kind := range redistest.FaultKinds() {
		if kind != redistest.DelayRequest && kind != redistest.DelayReply {
			faults = append(faults, redistest.Fault{Kind: kind, At: step})
			continue
		}
		delays := []time.Duration{briefDelay, longDelay}
		if term == shortTerm {
			delays = append(delays, term+briefDelay)
		}
		for _, delay := range delays {
			faults = append(faults, redistest.Fault{Kind: kind, At: step, Delay: delay})
		}
	}
	return faults
}

// trials returns every trial of a scenario, with leases of either term: each fault of each request with each moment of
// cancelling, cancelling without a fault, and faults of the undoing as well.
func (s sweptLock) trials(of acquireScenario) []sweepTrial {
	return append(s.trialsOf(of, longTerm), s.trialsOf(of, shortTerm)...)
}

func (s sweptLock) trialsOf(of acquireScenario, term time.Duration) (all []sweepTrial) {
	first := 1
	if of.cut > 0 {
		first = of.cut + 1 // another scenario has what comes before
	}
	for step := first; step <= len(of.steps); step++ {
		all = append(all, sweepTrial{of, step, term, nil, before})
		for _, f := range faultsOfScript(step, term) {
			for _, when := range []trialEnd{never, before, atFault} {
				all = append(all, sweepTrial{of, step, term, []redistest.Fault{f}, when})
			}
		}
		if of.steps[step-1] != s.acquire.Name {
			continue
		}
		// It is not known what became of the acquire, and the next request, which undoes it, fails as well.
		lost := redistest.Fault{Kind: redistest.CutAfterRequest, At: step}
		for _, f := range faultsOfScript(step+1, term) {
			all = append(all, sweepTrial{of, step, term, []redistest.Fault{lost, f}, atFault})
		}
	}
	return all
}

// sample returns a part of the trials that has every scenario, request and kind of fault in it. Of those with short leases it
// has what needs them: an acquire that comes too late. Permits for which nothing is cancelled are left to
// TestPermitsComeBackWhicheverRequestFails.
func (s sweptLock) sample(all []sweepTrial) []sweepTrial {
	return slices.DeleteFunc(all, func(t sweepTrial) bool {
		switch {
		case len(t.faults) == 0:
			return t.term == shortTerm
		case t.term == shortTerm:
			return len(t.faults) > 1 || t.faults[0].Delay < t.term || t.cancel != atFault
		case len(t.faults) == 2:
			return t.held || t.faults[1].Delay == briefDelay
		case t.cancel == never:
			return t.cut > 0 && t.step < len(t.steps) || s.acquire == scripts.SemaphoreEnter && !t.try
		}
		return t.cancel == before
	})
}

// faultSweep is a fixture in which requests of one kind of lock fail.
type faultSweep struct {
	*faultySession
	sweptLock

	holder, other *signalbox.Session // sessions of which no request fails
	view          *locktest.View
	taken         []string // the requests that the last acquire took
}

// sweepBubble runs a test in virtual time in which the requests that match can fail.
func sweepBubble(t *testing.T, kind sweptLock, match redistest.Match, test func(s *faultSweep)) {
	t.Helper()
	bubbleOfUsers(t, func(f *fixture) {
		s := &faultSweep{f.faultySession(match), kind, f.user().Session, f.user().Session, nil, nil}
		s.view = locktest.NewView(f.T, s)
		test(s)
	})
}

// Client implements redistest.Dialer.
func (s *faultSweep) Client(_ testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	c, _ := s.fixture.client(s.fixture.T, mod)
	s.fixture.ends = append(s.fixture.ends, c.Close)
	return c
}

// acquires makes the call of a trial beside a holder that releases the lock in time.
func (s *faultSweep) acquires(name string, tr sweepTrial) (lease signalbox.Lease, err error) {
	ctx, cancel := context.WithTimeout(s.fixture.Context(), time.Minute)
	defer cancel()
	release := func() error { return nil }
	if tr.held {
		release = sync.OnceValue(locktest.Must(s.fixture, s.rival.New(s.holder, name).Lock).Unlock)
	}
	s.losesMessages.Store(tr.unsubscribed)
	s.onFault(0, nil)
	s.on(func(k int) {
		if k == tr.step && tr.cancel == before {
			cancel()
		}
		if k == tr.after {
			time.AfterFunc(briefDelay/2, func() { _ = release() })
		}
	})
	if tr.cancel == atFault {
		s.onFault(tr.step, cancel)
	}
	s.armAll(tr.faults...)
	if tr.cut > 0 {
		s.armAll(append([]redistest.Fault{{Kind: redistest.CutAfterReply, At: tr.cut}}, tr.faults...)...)
	}
	lock := s.New(s.Session, name, signalbox.WithRenewedLease(tr.term))
	if tr.try {
		lease, err = lock.TryLock(ctx)
	} else {
		lease, err = lock.Lock(ctx)
	}
	return lease, errors.Join(err, release())
}

// mayReturn reports whether the call of a trial may return an error.
func (t sweepTrial) mayReturn(err error) bool {
	switch {
	case err == nil:
		return !t.try || !t.held
	case t.cancel != never && errors.Is(err, context.Canceled), t.try && t.held && errors.Is(err, signalbox.ErrHeld):
		return true
	}
	return t.try && len(t.faults) > 0 && !errors.Is(err, signalbox.ErrHeld) // its one round trip failed
}

// play runs a trial on a lock of its own, and returns what is wrong with what it left. It reports whether the lock was
// acquired.
func (s *faultSweep) play(name string, tr sweepTrial) (acquired bool, err error) {
	s.reopen()
	lease, err := s.acquires(name, tr)
	if !tr.mayReturn(err) {
		return false, fmt.Errorf("it returned: %w", err)
	}
	s.taken = s.log()
	acquired = err == nil
	if acquired {
		if err := s.valid(name, lease); err != nil {
			return true, err
		}
		if err := locktest.IgnoreUnconfirmed(lease.Unlock()); err != nil {
			return true, err
		}
	}
	return acquired, s.isDone(name, lease.Token())
}

// isDone returns what is wrong if the lock is not free soon, or is taken by a request that comes late, or does not go to another
// session with a greater token than the last one.
func (s *faultSweep) isDone(name string, last uint64) error {
	if err := s.becomesFree(name); err != nil {
		return err
	}
	time.Sleep(2 * shortTerm) // every request has arrived
	if err := s.becomesFree(name); err != nil {
		return err
	}
	lease, err := s.rival.New(s.other, name).TryLock(s.fixture.Context())
	if err != nil {
		return fmt.Errorf("another session: %w", err)
	}
	if lease.Token() <= last {
		return fmt.Errorf("the token fell from %d to %d", last, lease.Token())
	}
	if err := lease.Unlock(); err != nil {
		return err
	}
	return s.Close(s.fixture.Context())
}

func (s *faultSweep) becomesFree(name string) error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if locktest.Undoing(s.Session) == 0 && s.view.Free(name) {
			return nil
		}
		if time.Since(began) > undone {
			left, err := s.view.Hold(name)
			return errors.Join(fmt.Errorf("%d calls are not undone, and the server has %+v", locktest.Undoing(s.Session), left), err)
		}
	}
}

// valid returns what is wrong with a lease that was just acquired.
func (s *faultSweep) valid(name string, lease signalbox.Lease) error {
	hold, err := s.view.Hold(name)
	switch {
	case err != nil:
		return err
	case lease.Err() != nil:
		return fmt.Errorf("a lease that is over: %w", lease.Err())
	case hold.ID == "" || hold.Token != lease.Token() && (!s.repeated || hold.Token < lease.Token()):
		return fmt.Errorf("the server does not know token %d: %+v", lease.Token(), hold)
	case lease.Deadline().After(hold.Ends):
		return fmt.Errorf("the lease ends at %v, its key before", lease.Deadline())
	}
	return nil
}

// playAll runs trials, each of which must have a fault unless it was cancelled before.
func (s *faultSweep) playAll(trials []sweepTrial) {
	s.fixture.Helper()
	acquired, missed := 0, 0
	for i, tr := range trials {
		had, err := s.play(fmt.Sprint("trial/", i), tr)
		if err != nil {
			s.fixture.Errorf("%v: %v", tr, err)
		}
		if had {
			acquired++
		}
		if !s.allFired() {
			missed++
			if tr.cancel == never {
				s.fixture.Errorf("%v: the fault did not happen: %q", tr, s.log())
			}
		}
	}
	s.fixture.Logf("%d of %d trials acquired the lock, %d were over before their fault", acquired, len(trials), missed)
	s.view.NoImmortals(s.fixture)
}

// P4, P5: whichever request of an acquire fails, and however: an acquire that returned an error leaves nothing, and one that
// returned a lease has a hold. Its context may end at the same moment, and what undoes it may fail as well.
func TestAcquireThatFailsAtAnyStepLeavesNothing(t *testing.T) {
	t.Parallel()
	eachScenario(t, func(s *faultSweep, of acquireScenario) {
		s.playAll([]sweepTrial{{acquireScenario: of, term: longTerm}})
		require.Equal(s.fixture, of.steps, s.taken, "the requests if none fails")
		var some []sweepTrial
		for i, tr := range s.sample(s.trials(of)) {
			if i%redistest.Rounds(8, 1) == 0 {
				some = append(some, tr)
			}
		}
		s.playAll(some)
	})
}

func TestSoakOfAcquiresThatFailAtAnyStep(t *testing.T) { //nolint:paralleltest // has the machine to itself
	for more := locktest.Soak(t); more(); {
		t.Run("Round", func(t *testing.T) {
			eachScenario(t, func(s *faultSweep, of acquireScenario) {
				all := s.trials(of)
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				s.playAll(all[:min(len(all), 30)])
			})
		})
	}
}

// eachScenario runs a test in a bubble of its own for each way to acquire each kind of lock.
func eachScenario(t *testing.T, test func(s *faultSweep, of acquireScenario)) {
	t.Helper()
	for _, kind := range sweptKinds() {
		for _, of := range kind.scenarios {
			t.Run(fmt.Sprint(kind.Name, "/", of.name), func(t *testing.T) {
				t.Parallel()
				sweepBubble(t, kind, kind.counts(of), func(s *faultSweep) { test(s, of) })
			})
		}
	}
}
