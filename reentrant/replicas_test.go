// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// waits returns how often a server was asked to wait for its replicas.
func waits(server *redistest.Server) int64 { return server.CommandStats()["wait"].Calls }

// tokenOf returns the token of the holder.
func tokenOf(t *testing.T, mu *reentrant.Lock) uint64 {
	t.Helper()
	h, err := mu.Holder(t.Context())
	require.NoError(t, err)
	return h.Token
}

// P7: none but the acquire waits: entering again and handing the lock over inside the process do not.
func TestOnlyTheAcquireWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	s := locktest.SteadySession(t, primary)
	mu := reentrant.New(s, "a", signalbox.WithReplicas(1, 5*time.Second))
	lease := locktest.Must(t, mu.Lock)
	before := waits(primary)
	inner, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())
	waiting := locktest.Queue(t.Context(), t, mu.Lock)
	require.NoError(t, lease.Unlock())
	passed := locktest.MustHave(t, waiting)
	if tokenOf(t, mu) == passed.Token() {
		before++ // the turn was over on a busy machine, and this is a hold of its own
	}
	require.NoError(t, passed.Unlock())
	require.Equal(t, before, waits(primary))
	require.Equal(t, int64(1), primary.SentBy(func() {
		lease := locktest.Must(t, mu.Lock)
		require.NoError(t, lease.Unlock())
	})["wait"])
}

// A caller that asks for replicas is not handed a hold that was granted without them.
func TestAHoldIsNotHandedToACallerThatAsksForMore(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	s := locktest.SteadySession(t, primary)
	plain := locktest.Must(t, reentrant.New(s, "a").Lock)
	before := waits(primary)
	waiting := locktest.Queue(t.Context(), t, reentrant.New(s, "a", signalbox.WithReplicas(1, 10*time.Second)).Lock)
	require.NoError(t, plain.Unlock())
	got := locktest.MustHave(t, waiting)
	require.Greater(t, waits(primary), before)
	require.NoError(t, got.Unlock())
}

// P10: the acquire is undone where the server refuses to say what replicas have.
func TestADeniedWaitIsErrDenied(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	primary.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-wait")
	s := signalbox.NewSession(locktest.ClientAs(t, primary, "limited", "secret"))
	t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
	mu := reentrant.New(s, "a", signalbox.WithReplicas(1, time.Second))
	_, err := mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrDenied)
	redistest.Await(t, "the lock is free", func() bool { return !isHeld(t, primary, "a") }) // long before its lease ends
}

// P4, P5: whichever replies are lost, the lock is acquired in the end, once.
func TestALostReplyOfReplicasIsResolved(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	for _, c := range []struct {
		command string
		kind    redistest.FaultKind
	}{
		{"EVALSHA", redistest.CutBeforeRequest},
		{"EVALSHA", redistest.CutAfterRequest},
		{"EVALSHA", redistest.SwallowRequest},
		{"WAIT", redistest.CutBeforeRequest},
		{"WAIT", redistest.CutAfterRequest},
		{"WAIT", redistest.SwallowReply},
	} {
		name := c.kind.String() + "/" + c.command
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.kind != redistest.CutAfterRequest {
				redistest.Slow(t, "a client gives up a silent connection by its own timers")
			}
			proxy := redistest.NewProxy(t, primary.Addr())
			mu := reentrant.New(locktest.Session(t, proxy), name, signalbox.WithReplicas(1, 3*time.Second))
			require.NoError(t, locktest.Must(t, mu.Lock).Unlock()) // scripts are known from here on
			proxy.SetMatch(func(req []string) bool {
				return req[0] == c.command && (req[0] == "WAIT" || req[3] == locktest.Key(name))
			})
			proxy.ResetCount()
			fault := proxy.Arm(redistest.Fault{Kind: c.kind})
			lease := locktest.Must(t, mu.Lock)
			require.True(t, fault.HasFired())
			require.NoError(t, lease.Err())
			require.Equal(t, lease.Token(), tokenOf(t, reentrant.New(locktest.SteadySession(t, primary), name)))
			require.NoError(t, lease.Unlock())
			require.False(t, isHeld(t, primary, name))
		})
	}
}
