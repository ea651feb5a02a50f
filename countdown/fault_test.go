// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
	"github.com/signalbox-go/signalbox/scripts"
)

// H13, P5: a count-down whose answer is lost counts once, and opens nothing early. Whatever befalls the wire.
func TestACountDownWhoseAnswerIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	eachFault(t, scripts.CountdownCount, func(t *testing.T, at *struck) {
		t.Helper()
		r := mustStart(t, countdown.New(at.calm, "a"), 3)
		at.arm()
		mustCount(t, countdown.New(at.session, "a").RoundOf(r.ID()), 2, "x")
		at.fired()
		mustCount(t, r, 1, "y")
		at.arm()
		mustCount(t, countdown.New(at.session, "a").RoundOf(r.ID()), 0, "z")
		at.fired()
		require.NoError(t, r.Wait(soon(t)))
	})
}

// P5: the answer that the last count-down lost is "open", also when another round has begun by the time that it is sent
// again.
func TestALostOpeningIsNotTakenForALateWorker(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	calm := countdown.New(newSession(t, server), "a")
	r := mustStart(t, calm, 1)
	runs(proxy, scripts.CountdownCount)
	proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest, At: 1})
	proxy.OnRequest(func(k int, _ []string) {
		if k == 2 {
			if _, err := calm.Start(context.Background(), 1); err != nil {
				t.Error(err)
			}
		}
	})
	mustCount(t, countdown.New(newSession(t, proxy), "a").RoundOf(r.ID()), 0, "x")
	_, err := r.CountDown(t.Context(), "x")
	require.ErrorIs(t, err, signalbox.ErrRoundOver, "one that was answered is told")
}

// P5: a start whose answer is lost answers its own round, and never ErrRunning.
func TestAStartWhoseAnswerIsLostAnswersItsOwnRound(t *testing.T) {
	t.Parallel()
	eachFault(t, scripts.CountdownStart, func(t *testing.T, at *struck) {
		t.Helper()
		at.arm()
		l := countdown.New(at.session, "a")
		r := mustStart(t, l, 2)
		at.fired()
		newest, err := countdown.New(at.calm, "a").Round(t.Context())
		require.NoError(t, err)
		require.Equal(t, r.ID(), newest.ID())
		mustCount(t, r, 1, "x")
	})
}

// P5: the same if its round is forgotten when it is sent again: it begins no second one.
func TestStartThatIsForgottenIsErrUnconfirmed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	calm := countdown.New(newSession(t, server), "a")
	mustCount(t, mustStart(t, calm, 1), 0, "x")
	runs(proxy, scripts.CountdownStart)
	proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest, At: 1})
	proxy.OnRequest(func(k int, _ []string) {
		if k != 2 {
			return
		}
		for range 34 {
			r, err := calm.Round(context.Background())
			if err == nil {
				_, err = r.CountDown(context.Background(), "x")
			}
			if err == nil {
				_, err = calm.Start(context.Background(), 1)
			}
			if err != nil {
				t.Error(err)
			}
		}
		if err := calm.Reset(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, err := countdown.New(newSession(t, proxy), "a").Start(soon(t), 1)
	require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
}

// P5: the same of a reset: no round that was started since is reset.
func TestAResetWhoseAnswerIsLostResetsNoOtherRound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	calm := countdown.New(newSession(t, server), "a")
	first := mustStart(t, calm, 1)
	runs(proxy, scripts.CountdownReset)
	proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest, At: 1})
	next := make(chan countdown.Round, 1)
	proxy.OnRequest(func(k int, _ []string) {
		if k == 2 {
			r, err := calm.Start(context.Background(), 1)
			if err != nil {
				t.Error(err)
			}
			next <- r
		}
	})
	require.NoError(t, countdown.New(newSession(t, proxy), "a").Reset(soon(t)))
	require.ErrorIs(t, first.Wait(t.Context()), signalbox.ErrReset)
	mustCount(t, within(t, "the next round", next), 0, "x")
}

// P4: a start that failed leaves no round behind, also where the server executes it late.
func TestAStartThatFailedLeavesNoRound(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]redistest.Kind{"Executed": redistest.SwallowReply, "Late": redistest.DelayRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			wiretest.LoadScripts(t, server)
			proxy := redistest.NewProxy(t, server.Addr())
			s := newSession(t, proxy)
			l := countdown.New(s, "a")
			require.NoError(t, mustStart(t, l, 1).Wait(endAfterCount(t, l)))
			before := round(t, server, "a")
			runs(proxy, scripts.CountdownStart)
			armed := proxy.Arm(redistest.Fault{Kind: kind, Delay: 1500 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			proxy.OnRequest(func(int, []string) { cancel() }) // before the fault strikes
			_, err := l.Start(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
			within(t, "the fault", armed.Fired())
			await(t, "it is settled", func() bool { return (*session.Session)(s).Settler.Open() == 0 })
			after := round(t, server, "a")
			require.True(t, after == before || strings.HasSuffix(after, "x"), after)
			proxy.Disarm()
			_, err = countdown.New(newSession(t, server), "a").Start(t.Context(), 1)
			require.NoError(t, err)
		})
	}
}

// endAfterCount opens the newest round, and answers a context to wait with.
func endAfterCount(t *testing.T, l *countdown.Latch) context.Context {
	t.Helper()
	r, err := l.Round(t.Context())
	require.NoError(t, err)
	mustCount(t, r, 0, "x")
	return soon(t)
}

// struck is a session behind a wire that fails, and one that nothing befalls.
type struck struct {
	*testing.T

	proxy         *redistest.Proxy
	session, calm *signalbox.Session
	kind          redistest.Kind
	armed         *redistest.Armed
}

func (s *struck) arm() {
	s.Helper()
	s.armed = s.proxy.Arm(redistest.Fault{Kind: s.kind, Delay: 100 * time.Millisecond})
}

func (s *struck) fired() {
	s.Helper()
	within(s, "the fault", s.armed.Fired())
}

// eachFault runs a test with each fault of the wire, at requests that run a script.
func eachFault(t *testing.T, script *scripts.Script, test func(t *testing.T, at *struck)) {
	t.Helper()
	for _, kind := range redistest.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			wiretest.LoadScripts(t, server)
			proxy := redistest.NewProxy(t, server.Addr())
			runs(proxy, script)
			test(t, &struck{
				T: t, proxy: proxy, kind: kind, calm: newSession(t, server),
				session: newSession(t, dialerOf(func(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
					tb.Helper()
					return proxy.Client(tb, func(o *rueidis.ClientOption) {
						mod(o)
						o.ConnWriteTimeout = time.Second // a silent connection is given up
					})
				})),
			})
		})
	}
}

// requireRefusal checks that a count-down tries for as long as its context lets it, and tells with what it was refused.
func requireRefusal(t *testing.T, r countdown.Round, id, words string) {
	t.Helper()
	await(t, "a refusal that is answered in time", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := r.CountDown(ctx, id)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return errors.Is(err, signalbox.ErrRefused) && strings.Contains(err.Error(), words)
	})
}

// P10: a server that is away or refuses is waited for by those who may: a wait, a count-down, a start.
func TestAServerThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	l := countdown.New(s, "a")
	r := mustStart(t, l, 1)
	waiting := listening(t, s, r, "a")
	server.MustDo(t, "REPLICAOF", "127.0.0.1", "1") // READONLY, and of nobody
	_, err := l.Round(t.Context())
	if err != nil {
		require.ErrorIs(t, err, signalbox.ErrRefused)
	}
	requireRefusal(t, r, "x", "READONLY")
	var left atomic.Int64
	left.Store(-1)
	counted := make(chan error, 1)
	go func() {
		n, err := r.CountDown(soon(t), "x")
		left.Store(int64(n))
		counted <- err
	}()
	require.True(t, isSilent(waiting))
	server.MustDo(t, "REPLICAOF", "NO", "ONE")
	require.NoError(t, within(t, "the count-down", counted))
	require.Zero(t, left.Load())
	require.NoError(t, within(t, "the opening", waiting))
}

// P6: a frozen server is waited for, and how long a look of ours waits for it is nobody's business.
func TestAFrozenServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	waiting := listening(t, s, r, "a")
	ctx, cancel := context.WithCancel(t.Context())
	givenUp := waitLater(ctx, r)
	server.Freeze()
	within(t, "looks that are not answered", time.NewTimer(2500*time.Millisecond).C)
	require.True(t, isSilent(waiting))
	cancel()
	err := within(t, "the end of the wait", givenUp)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	server.Thaw()
	mustCount(t, r, 0, "x")
	require.NoError(t, within(t, "the opening", waiting))
}

// P10: what the server says last is told, where a wait ends without an answer.
func TestAWaitThatEndsTellsWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	waiting := listening(t, s, r, "a")
	server.Kill()
	await(t, "the server's absence", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := r.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return strings.Contains(err.Error(), "connection refused")
	})
	require.True(t, isSilent(waiting))
	server.Restart()
	require.ErrorIs(t, within(t, "the loss", waiting), signalbox.ErrRoundLost)
}

// P10: where memory is full no id is counted that is not the last one, which opens the round.
func TestTheLastCountDownNeedsNoMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	l := countdown.New(s, "a")
	r := mustStart(t, l, 2)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	requireRefusal(t, r, "x", "OOM")
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	mustCount(t, r, 1, "x")
	waiting := listening(t, s, r, "a")
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	mustCount(t, r, 0, "y")
	require.NoError(t, within(t, "the opening", waiting))
}

// P6: a server that comes back empty has lost the round, and whoever waits is told and does not wait for ever.
func TestARestartedServerTellsThatTheRoundIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 2)
	mustCount(t, r, 1, "x")
	waiting := listening(t, s, r, "a")
	server.Kill()
	server.Restart()
	require.ErrorIs(t, within(t, "the loss", waiting), signalbox.ErrRoundLost)
	_, err := r.CountDown(soon(t), "y")
	require.ErrorIs(t, err, signalbox.ErrRoundLost)
}
