// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// The script is sent by its text the first time, by its digest after that, and by its text if the server has
// forgotten it. WAIT follows it each time.
func TestScriptAndWaitAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(redistest.Commands("EVAL", "EVALSHA", "WAIT"))
	r := runner(t, proxy)
	for round, sent := range [][]string{{"EVAL", "WAIT"}, {"EVALSHA", "WAIT"}, {"EVALSHA", "WAIT"}, {"EVALSHA", "WAIT", "EVAL", "WAIT"}} {
		if round == 3 {
			server.MustDo(t, "SCRIPT", "FLUSH")
		}
		var words []string
		proxy.OnRequest(func(_ int, req []string) { words = append(words, req[0]) })
		script, replicated := r.RunReplicated(t.Context(), hello("key"), 0, time.Second)
		require.NoError(t, script.Err)
		require.Equal(t, int64(1), script.Reply.Int(0))
		require.NoError(t, replicated.Err)
		require.Zero(t, replicated.Reply.Int(0))
		require.Equal(t, sent, words, "round %d", round)
	}
}

func TestMissingReplicasAreWaitedForAsLongAsAsked(t *testing.T) {
	t.Parallel()
	const wait = 50 * time.Millisecond
	r := runner(t, redistest.Start(t))
	began := time.Now()
	script, replicated := r.RunReplicated(t.Context(), hello("key"), 1, wait)
	require.NoError(t, script.Err)
	require.NoError(t, replicated.Err)
	require.Zero(t, replicated.Reply.Int(0))
	require.GreaterOrEqual(t, time.Since(began), wait)
}

func TestRunReplicatedReturnsTheScriptsError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "RPUSH", "list", "x")
	script, replicated := runner(t, server).RunReplicated(t.Context(), force("list"), 0, time.Second)
	require.ErrorIs(t, script.Err, errs.ErrWrongKind)
	require.NoError(t, replicated.Err)
}

// P5: whatever is lost, nothing is sent twice.
func TestUnknownOutcomeWithReplicasIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		r := runner(t, proxy)
		proxy.Arm(redistest.Fault{Kind: kind})
		script, replicated := r.RunReplicated(t.Context(), hello("key"), 0, time.Second)
		require.Equal(t, wire.Unknown, wire.Judge(script.Err))
		require.Equal(t, wire.Unknown, wire.Judge(replicated.Err))
		require.Equal(t, 1, proxy.Requests())
	}
}
