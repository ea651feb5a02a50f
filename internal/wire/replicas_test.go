// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The scripts are sent by their texts the first time, by their digests after that, and by their texts if the server has
// forgotten them. WAIT follows them each time.
func TestScriptAndWaitAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(redistest.Commands("EVAL", "EVALSHA", "WAIT"))
	r := runner(t, proxy)
	for round, sent := range [][]string{
		{"EVAL", "EVAL", "WAIT"},
		{"EVALSHA", "EVALSHA", "WAIT"},
		{"EVALSHA", "EVALSHA", "WAIT"},
		{"EVALSHA", "EVALSHA", "WAIT", "EVAL", "EVAL", "WAIT"},
	} {
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

// P1: a replica that lacks a hold is not counted, even if another connection wrote the hold and the script writes nothing.
// Without the write between the script and WAIT, Redis 8.0 and Valkey 8.0 count it; Redis 7.0 does not.
func TestAReplicaThatLacksAnEarlierWriteIsNotCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locktest.StartReplica(t, server).Freeze()
	const hold, holder, outcome = "sb1l1780000000000000aaaaaaaaaaaaaaaaaaaaaa1000000000000000000t-host:42", "sb:{a}:lock", "sb:{a}:once"
	server.MustDo(t, "SET", holder, hold, "PX", time.Hour.Milliseconds())
	server.MustDo(t, "SET", outcome, "sb1o1780000000000000x", "PX", time.Hour.Milliseconds())
	for name, call := range map[string]wire.Call{
		"Renew": {Script: scripts.HolderRenew, Keys: []string{holder}, Args: []string{hold[20:62], "1000"}},
		"Store": {Script: scripts.OnceStore, Keys: []string{outcome, holder}, Args: []string{"1780000000000000", "1000", "x", "PUBLISH", "c", hold[20:61]}},
	} {
		r := runner(t, server)
		for range 2 { // by text, by digest
			script, replicated := r.RunReplicated(t.Context(), call, 1, time.Millisecond)
			require.NoError(t, script.Err, name)
			require.Equal(t, wire.Done, script.Reply.Code(), name)
			require.NoError(t, replicated.Err, name)
			require.Zero(t, replicated.Reply.Int(0), name)
		}
	}
}

// P1: if the key is gone, WAIT has no write to count, and a replica that has all of the server is not counted.
func TestNoReplicaCountsForAMissingKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locktest.StartReplica(t, server)
	script, replicated := runner(t, server).RunReplicated(t.Context(), hello("key"), 1, redistest.Patience)
	require.NoError(t, script.Err)
	require.NoError(t, replicated.Err)
	require.Zero(t, replicated.Reply.Int(0))
}
