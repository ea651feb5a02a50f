// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// hello and force are two calls that may be sent as often as one likes.
func hello(key string) wire.Call {
	return wire.Call{Script: scripts.SessionHello, Keys: []string{key}}
}

func force(key string) wire.Call {
	return wire.Call{Script: scripts.HolderForce, Keys: []string{key}, Args: []string{"hold", "PUBLISH", "channel", "notified", "60000"}}
}

func runner(t *testing.T, at interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
},
) *wire.Runner {
	t.Helper()
	return wire.NewRunner(at.Client(t, signalbox.Tune))
}

func TestUnknownScriptIsSentByItsText(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	r := runner(t, proxy)
	for round, sent := range []int{2, 1, 1} {
		proxy.ResetCount()
		reply, err := r.Run(t.Context(), hello("key"))
		require.NoError(t, err)
		require.Equal(t, int64(1), reply.Int(0))
		require.Equal(t, sent, proxy.Requests(), "round %d", round)
	}
	server.MustDo(t, "SCRIPT", "FLUSH")
	_, err := r.Run(t.Context(), hello("key"))
	require.NoError(t, err)
}

func TestOnlyUnknownScriptsOfAPipelineAreSentAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	r := runner(t, proxy)
	_, err := r.Run(t.Context(), hello("key"))
	require.NoError(t, err)
	server.MustDo(t, "RPUSH", "list", "x")
	proxy.ResetCount()
	outcomes := r.RunMany(t.Context(), []wire.Call{hello("a"), force("b"), hello("c"), force("list"), force("d")})
	require.Equal(t, 5+3, proxy.Requests())
	for i, first := range []int64{1, 0, 1, -1, 0} {
		if i == 3 {
			require.ErrorIs(t, outcomes[i].Err, errs.ErrWrongKind)
			continue
		}
		require.NoError(t, outcomes[i].Err)
		require.Equal(t, first, outcomes[i].Reply.Int(0), "the answers are not in the order of the calls")
		if first == 1 {
			require.Len(t, outcomes[i].Reply.Text(1), 16, "the server's time")
		}
	}
}

// P5: what was sent once may have been executed once.
func TestCallOfUnknownOutcomeIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			r := runner(t, proxy)
			_, err := r.Run(t.Context(), hello("key"))
			require.NoError(t, err)
			for _, many := range []bool{false, true} {
				proxy.ResetCount()
				proxy.Arm(redistest.Fault{Kind: kind})
				if many {
					err = r.RunMany(t.Context(), []wire.Call{hello("key")})[0].Err
				} else {
					_, err = r.Run(t.Context(), hello("key"))
				}
				require.Error(t, err)
				require.Equal(t, wire.Unknown, wire.Judge(err))
				require.Equal(t, 1, proxy.Requests())
			}
		})
	}
}

func TestEndOfAContextEndsACallAtOnce(t *testing.T) {
	t.Parallel()
	for name, tune := range map[string]func(*rueidis.ClientOption){
		"Tuned":   signalbox.Tune,
		"Untuned": func(o *rueidis.ClientOption) { o.DisableCache = true },
	} {
		for what, run := range map[string]func(ctx context.Context, r *wire.Runner) error{
			"Run": func(ctx context.Context, r *wire.Runner) error {
				_, err := r.Run(ctx, hello("key"))
				return err
			},
			"RunMany": func(ctx context.Context, r *wire.Runner) error {
				return r.RunMany(ctx, []wire.Call{hello("a"), hello("b")})[1].Err
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				r := wire.NewRunner(server.Client(t, func(o *rueidis.ClientOption) {
					tune(o)
					o.PipelineMultiplex = -1 // one connection, which is made before the server freezes
					o.ConnWriteTimeout = time.Minute
				}))
				// A context that never ends leaves an untuned client without a goroutine that reads.
				_, err := r.Run(context.Background(), hello("key"))
				require.NoError(t, err)
				server.Freeze()
				requireCancellable(t, func(ctx context.Context) error { return run(ctx, r) })
				server.Thaw()
			})
		}
	}
}

// requireCancellable checks that run ends with its context, which has a deadline that is far off.
func requireCancellable(t *testing.T, run func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	soon := time.AfterFunc(20*time.Millisecond, cancel) //nolint:forbidigo // fires, or is stopped below
	defer soon.Stop()
	began := time.Now()
	err := run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, wire.Unknown, wire.Judge(err))
	require.Less(t, time.Since(began), redistest.Patience, "only the client's own limit ended it")
}
