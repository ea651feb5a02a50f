// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// together is how many trials run at a time. They mostly wait.
const together = 96

// The lease of a trial is much longer than the patience, so that what is left shows; or shorter,
// and the patience with it.
const (
	patience  = 3 * time.Second
	longLife  = 30 * time.Second
	shortLife = 2 * time.Second
)

// P4: whatever fails at whichever step, an acquire that gave its caller no lease leaves no
// hold, and one that did gave a lease that holds.
func TestAcquireThatFailsAtAnyStepLeavesNothing(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client gives a silent connection up after a second")
	w := newWorld(t)
	var all []trial
	for _, k := range kinds() {
		for _, s := range k.scenarios {
			all = append(all, sample(append(k.trials(s, longLife), k.trials(s, shortLife)...))...)
		}
	}
	w.sweep(t, all)
}

func TestSoakAcquireThatFailsAtAnyStepLeavesNothing(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	w := newWorld(t)
	for i := 0; more(); i++ {
		for _, k := range kinds() {
			s := k.scenarios[i/2%len(k.scenarios)]
			w.sweep(t, k.trials(s, []time.Duration{longLife, shortLife}[i%2]))
		}
	}
}

// The sweep strikes the steps that there are, no fewer.
func TestAcquireTakesTheStepsThatAreSwept(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "three polls, which are steps, come a second apart")
	each(t, func(t *testing.T, w *world) {
		for _, s := range w.kind.scenarios {
			// On a busy machine a connection is given up, or what two goroutines do comes in another order.
			const calls = 5
			var seen []string
			for n := 0; n < calls && !s.takes(seen); n++ {
				seen = w.steps(t, s, fmt.Sprint(s.name, "/", n))
			}
			require.True(t, s.takes(seen), "%s: %q instead of %q", s.name, seen, s.steps)
		}
	})
}

// steps answers the requests of one call where nothing fails.
func (w *world) steps(t *testing.T, s scenario, name string) []string {
	t.Helper()
	proxy := redistest.NewProxy(t, w.server.Addr())
	proxy.SetMatch(w.kind.counts(s))
	tr := trial{kind: w.kind, scenario: s, life: longLife}
	run, err := w.acquire(name, tr, proxy, locktest.Impatient(locktest.Session(t, proxy)))
	require.NoError(t, err)
	require.NoError(t, run.judge(tr))
	return run.requests()
}

// tally counts what trials ended with.
type tally struct {
	sync.Mutex
	leased           int
	slowest          time.Duration
	missed, failures []string
}

func (c *tally) add(tr trial, o outcome, err error) {
	c.Lock()
	defer c.Unlock()
	if !o.struck {
		c.missed = append(c.missed, tr.String())
	}
	if o.leased {
		c.leased++
	}
	c.slowest = max(c.slowest, o.settled)
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("%v: %v", tr, err))
	}
}

// sweep plays trials and fails the test with those that broke a promise.
func (w *world) sweep(t *testing.T, trials []trial) {
	t.Helper()
	var (
		group sync.WaitGroup
		count tally
		begun = time.Now()
		slots = make(chan struct{}, together)
	)
	for i, tr := range trials {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			o, err := w.play(fmt.Sprintf("lock/%d/%d", begun.UnixNano(), i), tr)
			count.add(tr, o, err)
		})
	}
	group.Wait()
	t.Logf("%d trials in %v: %d gave a lease, %d were over before their fault, settled after %v at most",
		len(trials), time.Since(begun).Round(time.Second), count.leased, len(count.missed), count.slowest)
	require.Empty(t, count.failures)
	require.Less(t, len(count.missed), len(trials)/10+1, "the sweep does not bite: %q", count.missed)
	redistest.AwaitFor(t, settled, "nothing is held", func() bool {
		immortal, held, err := w.view.Leaks()
		require.NoError(t, err)
		require.Empty(t, immortal)
		return len(held) == 0
	})
}
