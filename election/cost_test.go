// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P7: a term costs a script and a write of its value, a resignation two scripts, and each question two scripts in one
// round trip.
func TestWhatATermCosts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	// Nothing is renewed meanwhile, and no subscription asks whether the hold is still there.
	e := election.New(locktest.Session(t, server, signalbox.WithPolling()), "a", signalbox.WithRenewedLease(24*time.Hour))
	term := mustLead(t, e) // the first call of a session asks for the time as well
	redistest.Await(t, "the value", func() bool { return locktest.Count(t, server, "EXISTS", valueKey) == 1 })
	costs := func(scripts int64, do func()) {
		t.Helper()
		sent := server.SentBy(do)
		require.Equal(t, scripts, sent["evalsha"], sent)
	}
	costs(1, func() { require.NoError(t, term.SetValue(t.Context(), "x")) })
	costs(2, func() { require.NoError(t, e.Health(t.Context())) })
	costs(2, func() {
		_, err := e.Leader(t.Context())
		require.NoError(t, err)
	})
	costs(2, func() { require.NoError(t, term.Resign()) })
	costs(2, func() {
		term = mustLead(t, e)
		redistest.Await(t, "the value", func() bool { return locktest.Count(t, server, "EXISTS", valueKey) == 1 })
	})
	require.NoError(t, term.Resign())
}

// BenchmarkNextLeader measures the time from the call of Resign until the next candidate leads, in another session, while
// other candidates wait.
func BenchmarkNextLeader(b *testing.B) {
	server := redistest.Start(b)
	redistest.LoadScripts(b, server)
	sessions := make([]*signalbox.Session, 10)
	led := make(chan election.Term)
	for i := range sessions {
		sessions[i] = locktest.Session(b, server)
	}
	e := func(i int) *election.Election { return election.New(sessions[i%len(sessions)], "a") }
	campaign := func(i int) {
		term, err := e(i).Campaign(b.Context())
		if err == nil {
			led <- term
		}
	}
	for i := range sessions {
		go campaign(i)
	}
	term := <-led
	var took, trips []time.Duration
	for b.Loop() {
		began := time.Now()
		require.NoError(b, e(1).Health(b.Context()))
		trips = append(trips, time.Since(began))
		began = time.Now()
		go func() { _ = term.Resign() }()
		term = <-led
		took = append(took, time.Since(began))
		go campaign(0)
	}
	slices.Sort(took)
	slices.Sort(trips)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(trips[len(trips)/2].Microseconds()), "round-trip-us")
	b.StopTimer()
	_ = term.Resign()
	for range len(sessions) - 1 {
		_ = (<-led).Resign()
	}
}

// BenchmarkObserve measures the time from the call of SetValue until an observer in another session has the value.
func BenchmarkObserve(b *testing.B) {
	server := redistest.Start(b)
	changes := observe(b, election.New(locktest.Session(b, server), "a"))
	term := mustLead(b, election.New(locktest.Session(b, server), "a"))
	defer func() { _ = term.Resign() }()
	for b.Loop() {
		value := time.Now().String()
		require.NoError(b, term.SetValue(b.Context(), value))
		changes.until(leads(term, value))
	}
}
