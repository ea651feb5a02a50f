// SPDX-License-Identifier: Apache-2.0

package election_test

import (
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
