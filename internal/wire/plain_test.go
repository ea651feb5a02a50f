// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// plainRunner returns a runner whose connection is established.
func plainRunner(t *testing.T, at redistest.Dialer) *wire.Runner {
	t.Helper()
	r := runner(t, at)
	_, err := r.Run(t.Context(), hello("{k}"))
	require.NoError(t, err)
	return r
}

func millis(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// runPlain runs a plain acquire of key, whose end is in d. Another test that closes a connection keeps it from being sent.
func runPlain(t *testing.T, r *wire.Runner, key string, d time.Duration) (reply wire.PlainReply) {
	t.Helper()
	redistest.Await(t, "a plain acquire that is sent", func() bool {
		var err error
		if reply, err = r.RunPlain(t.Context(), key, "value", millis(time.Now().Add(d))); err != nil {
			require.Equal(t, wire.Temporary, wire.Judge(err))
			_, err = r.Run(t.Context(), hello("{k}"))
			require.NoError(t, err)
			return false
		}
		return true
	})
	return reply
}

// P1, P5: the replies to a plain acquire say whether the key was missing, and whether it is there then.
func TestRunPlain_SaysWhatTheServerHas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	requirePlainReplies(t, plainRunner(t, server))
	require.Equal(t, "value", server.MustDo(t, "GET", "{k}fresh"))
	require.Nil(t, server.MustDo(t, "GET", "{k}over"))
}

// P1, P5: the same in a cluster.
func TestRunPlain_InACluster_SaysWhatTheNodeHas(t *testing.T) {
	t.Parallel()
	requirePlainReplies(t, plainRunner(t, redistest.StartCluster(t)))
}

func requirePlainReplies(t *testing.T, r *wire.Runner) {
	t.Helper()
	require.False(t, r.HasUsed("{k}fresh"))
	reply := runPlain(t, r, "{k}fresh", time.Hour)
	require.True(t, reply.IsSet && reply.IsOwn)
	require.Positive(t, reply.Left)
	require.LessOrEqual(t, reply.Left, time.Hour)
	require.Equal(t, wire.PlainReply{}, runPlain(t, r, "{k}fresh", time.Hour), "it is there")
	reply = runPlain(t, r, "{k}over", -time.Second)
	require.True(t, reply.IsSet)
	require.False(t, reply.IsOwn, "its end is over")
	require.False(t, r.HasUsed("{k}fresh"))
	require.True(t, r.HasUsed("{k}"), "a script has")
}

// P5: the outcome of a plain acquire without a reply is unknown, and the client does not send it twice.
func TestRunPlain_HasNoReply_IsUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	r := plainRunner(t, proxy)
	runPlain(t, r, "{k}before", time.Hour)
	proxy.SetMatch(func(request []string) bool { return len(request) > 4 && request[4] == "PXAT" })
	proxy.ResetCount()
	fault := proxy.Arm(redistest.Fault{Kind: redistest.SwallowReply})
	redistest.Await(t, "a plain acquire that is sent", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			select {
			case <-fault.Fired():
			case <-ctx.Done():
			}
			cancel()
		}()
		_, err := r.RunPlain(ctx, "{k}", "value", millis(time.Now().Add(time.Hour)))
		require.Error(t, err)
		if wire.Judge(err) == wire.Temporary { // another test closed a connection
			_, err = r.Run(t.Context(), hello("{k}"))
			require.NoError(t, err)
			return false
		}
		require.Equal(t, wire.Unknown, wire.Judge(err))
		return true
	})
	require.Equal(t, 1, proxy.Requests())
}
