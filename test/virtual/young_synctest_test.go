// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// mayTake is how much later than the end of a hold a waiter has the lock.
const mayTake = 200 * time.Millisecond

// near moves both processes to within a millisecond of the servers.
func (p *twoProcesses) near() {
	for _, w := range append(p.others, p.wires...) {
		w.latency.Store(int64(time.Millisecond / 2))
	}
}

// dies takes the lock, cuts its holder off after age, and returns how long after the acquire the other process had it.
func (p *twoProcesses) dies(age time.Duration) time.Duration {
	p.Helper()
	p.near()
	lease := p.must(p.first)
	began := time.Now()
	waits := make(chan lockResult, 1)
	go func() {
		lease, err := p.second.Lock(p.Context())
		waits <- lockResult{lease: lease, err: err, at: time.Now()}
	}()
	time.Sleep(age)
	p.cutOff()
	got := <-waits
	require.NoError(p, got.err)
	require.Error(p, lease.Err(), "it ended here before")
	require.NoError(p, got.lease.Unlock())
	return got.at.Sub(began)
}

// P2, P6: a holder that dies delays the others by what is left of its first lease, or of the lease that renewals gave it.
func TestAHolderThatDiesYoungDelaysTheOthersLittle(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for name, c := range map[string]struct { //nolint:paralleltest // see above
		options []signalbox.LockOption
		age     time.Duration
		lasts   time.Duration
		java    time.Duration // the same in Java's layout, which has no first lease; 0 if it refuses the option
	}{
		"Young":      {nil, 0, 3 * time.Second, 30 * time.Second},
		"Older":      {nil, 400 * time.Millisecond, 3 * time.Second, 30 * time.Second},
		"ShortLease": {[]signalbox.LockOption{signalbox.WithRenewedLease(2500 * time.Millisecond)}, 0, 2500 * time.Millisecond, 2500 * time.Millisecond},
		"Longer":     {[]signalbox.LockOption{signalbox.WithFirstLease(10 * time.Second)}, 0, 10 * time.Second, 0},
		"Whole":      {[]signalbox.LockOption{signalbox.WithFirstLease(time.Hour)}, 0, 30 * time.Second, 0},
		"Fixed":      {[]signalbox.LockOption{signalbox.WithFixedLease(10 * time.Second)}, 0, 10 * time.Second, 10 * time.Second},
		"MaxHold":    {[]signalbox.LockOption{signalbox.WithMaxHold(2500 * time.Millisecond)}, 0, 2500 * time.Millisecond, 2500 * time.Millisecond},
	} {
		for _, kind := range steppedKinds() {
			lasts := c.lasts
			if kind.name == locktest.RedissonReentrant().Name {
				lasts = c.java
			}
			if lasts == 0 {
				continue
			}
			t.Run(name+"/"+kind.name, func(t *testing.T) {
				kind.run(t, c.options, func(p *twoProcesses) {
					delay := p.dies(c.age)
					require.Less(p, delay, lasts+mayTake)
					require.Greater(p, delay, lasts-mayTake)
				})
			})
		}
	}
}

// P2: after a second a hold has its whole lease: an outage of three seconds ends none.
func TestAHoldHasItsWholeLeaseAfterASecond(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for _, kind := range steppedKinds() { //nolint:paralleltest // see above
		t.Run(kind.name, func(t *testing.T) {
			kind.run(t, nil, func(p *twoProcesses) {
				p.grows()
				delay := p.dies(1500 * time.Millisecond)
				require.Greater(p, delay, 30*time.Second)
				require.Less(p, delay, 30*time.Second+1500*time.Millisecond+mayTake)
			})
		})
	}
}

// grows checks that a young hold outlives a server that is silent for a second and a half.
func (p *twoProcesses) grows() {
	p.Helper()
	p.near()
	lease := p.must(p.first)
	time.Sleep(400 * time.Millisecond) // it was not renewed yet
	for _, w := range p.wires {
		w.goSilent()
	}
	time.Sleep(1500 * time.Millisecond)
	for _, w := range p.wires {
		w.heal()
	}
	time.Sleep(3 * time.Second)
	require.NoError(p, lease.Err())
	require.Greater(p, time.Until(lease.Deadline()), 20*time.Second)
	require.NoError(p, lease.Unlock())
	time.Sleep(time.Second)
}

// P2: the price of a first lease. An outage that begins before the first renewal ends a hold if it lasts longer than that, and
// no hold that chose its whole lease, or that has it already.
func TestAnOutageEndsAYoungHold(t *testing.T) {
	t.Parallel()
	whole := signalbox.WithFirstLease(time.Hour)
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		age     time.Duration
		outage  time.Duration
		refused bool // connections are refused, not silent
		lost    bool
	}{
		"ASecond":   {nil, 0, time.Second, false, false},
		"Silent":    {nil, 0, 3 * time.Second, false, true},
		"Refused":   {nil, 0, 2500 * time.Millisecond, true, false},
		"RefusedOn": {nil, 0, 3 * time.Second, true, true},
		"Whole":     {[]signalbox.LockOption{whole}, 0, 20 * time.Second, false, false},
		"Older":     {nil, 1100 * time.Millisecond, 20 * time.Second, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				s, link, closeAll := f.session(f.T)
				defer closeAll()
				lease := atOnce(f.T, reentrant.New(s, "a", c.options...))
				time.Sleep(c.age)
				if c.refused {
					link.refuses.Store(true)
					link.cut()
				} else {
					link.goSilent()
				}
				time.Sleep(c.outage)
				link.heal()
				time.Sleep(time.Minute)
				if c.lost {
					require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
				} else {
					require.NoError(f, lease.Err())
				}
				_ = lease.Unlock()
			})
		})
	}
}

// eachYoung runs a test with sessions and options that choose no first lease, and with those that choose 3 s.
func eachYoung(t *testing.T, test func(f *fixture, s *signalbox.Session, link *wire, options []signalbox.LockOption, whole bool)) {
	t.Helper()
	short := []signalbox.LockOption{signalbox.WithFirstLease(3 * time.Second)}
	for name, c := range map[string]struct{ defaults, options []signalbox.LockOption }{
		"NotSet": {}, "Option": {nil, short}, "Default": {short, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				s, link, closeAll := f.session(f.T, signalbox.WithDefaults(c.defaults...))
				defer closeAll()
				test(f, s, link, c.options, name == "NotSet")
			})
		})
	}
}

// P2: a term has its whole lease from the start: an outage that begins with it and would end another young hold does not
// end it, unless the caller chose a first lease.
func TestAnOutageEndsNoYoungTerm(t *testing.T) {
	t.Parallel()
	eachYoung(t, func(f *fixture, s *signalbox.Session, link *wire, options []signalbox.LockOption, whole bool) {
		term := leads(f, election.New(s, "a", options...))
		link.goSilent()
		time.Sleep(4 * time.Second)
		link.heal()
		time.Sleep(time.Minute)
		if whole {
			require.NoError(f, term.Err())
			require.NoError(f, term.Resign())
			return
		}
		require.ErrorIs(f, term.Err(), signalbox.ErrLost)
		require.ErrorIs(f, term.Resign(), signalbox.ErrLost)
	})
}

// P2: the function of a once has its whole lease from the start: an outage that begins with it and would end another young
// hold does not let it run twice, unless the caller chose a first lease.
func TestAnOutageEndsNoYoungRunOfOnce(t *testing.T) {
	t.Parallel()
	eachYoung(t, func(f *fixture, s *signalbox.Session, link *wire, options []signalbox.LockOption, whole bool) {
		_, _, err := once.New(s, "a", options...).Do(f.Context(), func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
			link.goSilent()
			time.Sleep(10 * time.Second)
			link.heal()
			time.Sleep(time.Minute)
			return nil, context.Cause(ctx)
		})
		if whole {
			require.NoError(f, err)
			return
		}
		require.ErrorIs(f, err, signalbox.ErrLost)
	})
}
