// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// hello and force are two calls that may be sent as often as one likes.
func hello(key string) wire.Call {
	return wire.Call{Script: wire.HelloScript, Keys: []string{key}}
}

func force(key string) wire.Call {
	return wire.Call{Script: proto.HolderForceScript, Keys: []string{key}, Args: []string{"hold", "PUBLISH", "channel", "notified", "60000"}}
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

// sendHellos runs n scripts at once, each for a key of its own.
func sendHellos(t *testing.T, r *wire.Runner, n int) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			reply, err := r.Run(t.Context(), hello(fmt.Sprint("key", i)))
			if err != nil || reply.Int(0) != 1 {
				t.Errorf("%v, %v", reply.Int(0), err)
			}
		})
	}
	return &all
}

// All calls arrive before the first text does, and the server refuses every one of them.
func TestCallsThatAreRefusedTogetherSendOneText(t *testing.T) {
	t.Parallel()
	const calls = 200
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	r := runner(t, proxy)
	_, err := r.Run(t.Context(), force("key")) // connects
	require.NoError(t, err)
	proxy.ResetCount()
	for range 2 { // the second time after the server has forgotten the script
		sent := server.SentBy(func() {
			server.Freeze()
			all := sendHellos(t, r, calls)
			redistest.Await(t, "the calls", func() bool { return proxy.Requests() == calls })
			server.Thaw()
			all.Wait()
		})
		require.Equal(t, int64(1), sent["eval"])
		server.MustDo(t, "SCRIPT", "FLUSH")
		proxy.ResetCount()
	}
}

// movingClient is a client that gives its connection up while the first scripts are under way, as one does that
// follows sentinels.
type movingClient struct {
	rueidis.Client

	moved bool
}

// Do implements rueidis.Client.
func (m *movingClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if !m.moved {
		m.moved = true
		return rueidis.NewErrorResult(rueidis.ErrClosing)
	}
	return m.Client.Do(ctx, command)
}

// DoMulti implements rueidis.Client.
func (m *movingClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := m.Client.DoMulti(ctx, commands...)
	if !m.moved {
		m.moved = true
		for i := range results[1:] {
			results[i+1] = rueidis.NewErrorResult(rueidis.ErrClosing)
		}
	}
	return results
}

// P10: the client says that it is closed of connections that it leaves as well. What was under way there has
// no known outcome, and the next call finds another server.
func TestCallOnAClosedConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, run := range map[string]func(*wire.Runner) error{
		"One": func(r *wire.Runner) error {
			_, err := r.Run(t.Context(), hello("key"))
			return err
		},
		"Many": func(r *wire.Runner) error {
			outcomes := r.RunMany(t.Context(), []wire.Call{hello("key"), hello("key"), hello("key")})
			return errors.Join(outcomes[1].Err, outcomes[2].Err)
		},
	} {
		client := server.Client(t, signalbox.Tune)
		r := wire.NewRunner(&movingClient{Client: client})
		err := run(r)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, errs.ErrClosed, name)
		require.Equal(t, wire.Unknown, wire.Judge(err), name)
		require.NoError(t, run(r), name)

		client.Close()
		require.ErrorIs(t, run(r), errs.ErrClosed, name)
		require.Equal(t, wire.Final, wire.Judge(run(r)), name)
	}
}

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
		"Renew": {Script: proto.HolderRenewScript, Keys: []string{holder}, Args: []string{hold[20:62], "1000"}},
		"Store": {Script: proto.OnceStoreScript, Keys: []string{outcome, holder}, Args: []string{"1780000000000000", "1000", "x", "PUBLISH", "c", hold[20:61]}},
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
