// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// aPoll is longer than the pause between two polls of a waiter.
const aPoll = 1500 * time.Millisecond

// P6: a release while the subscription is broken is found as it is restored, not by a poll a second
// later.
func TestReleaseWhileTheSubscriptionIsBrokenIsFound(t *testing.T) {
	t.Parallel()
	const latency, instants = 20 * time.Millisecond, 20
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, latency)
		defer closeAll()
		for i := range instants {
			name := fmt.Sprint("broken/", i)
			held := atOnce(f.T, reentrant.New(users[0].Session, name))
			next := queuedAndListening(f.Context(), reentrant.New(users[1].Session, name))
			users[1].breakSubscriptions()
			time.Sleep(time.Duration(i) * latency / 4)
			released := time.Now()
			require.NoError(f, held.Unlock())
			got := <-next
			require.NoError(f, got.err)
			require.Less(f, got.at.Sub(released), 16*latency, "released %v after the break", time.Duration(i)*latency/4)
			require.NoError(f, got.lease.Unlock())
		}
	})
}

// P6: if the message of a release is lost, a poll finds the lock free about a second later; so does
// a session that polls and subscribes to nothing, in both layouts.
func TestPollFindsTheLockWithoutAMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loses   bool
		session []signalbox.SessionOption
		lock    []signalbox.LockOption
	}{
		"Lost":         {loses: true},
		"LostRedisson": {loses: true, lock: []signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}},
		"Polls":        {session: []signalbox.SessionOption{signalbox.WithPolling()}},
		"PollsRedisson": {
			session: []signalbox.SessionOption{signalbox.WithPolling()}, lock: []signalbox.LockOption{signalbox.WithLayout(redisson.Layout())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				holding, _, closeHolding := f.session(f.T, signalbox.WithPolling())
				defer closeHolding()
				s, link, closeAll := f.session(f.T, c.session...)
				defer closeAll()
				link.losesMessages.Store(c.loses)
				held := atOnce(f.T, reentrant.New(holding, "a", c.lock...))
				next := queuedAndListening(f.Context(), reentrant.New(s, "a", c.lock...))
				require.Equal(f, !c.loses, len(f.redis.PubSubChannels("")) == 0)
				released := time.Now()
				require.NoError(f, held.Unlock())
				got := <-next
				require.NoError(f, got.err)
				require.Less(f, got.at.Sub(released), aPoll)
				require.NoError(f, got.lease.Unlock())
			})
		})
	}
}

// P6: the next in the queue of a session has a lock that was lost before its key would have ended.
func TestLostLockGoesToTheNextInTheQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		lost := atOnce(f.T, reentrant.New(s, "a", signalbox.WithFixedLease(10*time.Second)))
		next := queuedAndListening(f.Context(), reentrant.New(s, "a"))
		ends := time.Now().Add(f.left("a"))
		got := <-next
		require.NoError(f, got.err)
		require.WithinRange(f, got.at, lost.Deadline(), ends.Add(5*time.Millisecond))
		require.Greater(f, got.lease.Token(), lost.Token())
		require.ErrorIs(f, lost.Unlock(), signalbox.ErrLost)
		require.NoError(f, got.lease.Err())
		require.NoError(f, got.lease.Unlock())
	})
}

// P7: goroutines of a session that wait for one lock are one waiter to the server, and TryLock
// beside them asks nothing.
func TestWaitersOfASessionAreOneToTheServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		held := atOnce(f.T, reentrant.New(users[0].Session, "a"))
		mu := reentrant.New(users[1].Session, "a")
		ctx, cancel := context.WithCancel(f.Context())
		waiting := []<-chan lockResult{queuedAndListening(ctx, mu)}
		before := f.commands.Load()
		for range 50 {
			returned := make(chan lockResult, 1)
			go func() {
				_, err := mu.Lock(ctx)
				returned <- lockResult{err: err}
			}()
			waiting = append(waiting, returned)
		}
		synctest.Wait()
		_, err := mu.TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		require.Equal(f, before, f.commands.Load())
		channel := names.Grants(names.DefaultPrefix) + users[1].ID()
		require.Equal(f, 1, f.redis.PubSubNumSub(channel)[channel])
		cancel()
		for _, c := range waiting {
			require.ErrorIs(f, (<-c).err, context.Canceled)
		}
		require.NoError(f, held.Unlock())
	})
}

// P10: a wait that its context ends reports ErrHeld too if the last reply said so, wherever the
// waiter was queued. If there was no reply, or none to the last poll, it reports what kept it from the server.
func TestEndedWaitReportsErrHeldIfTheServerSaidSo(t *testing.T) {
	t.Parallel()
	const waits = 6 * time.Second // half of it is longer than the pause between polls, and the time that a poll waits for its reply
	heldBy := func(f *fixture, s *signalbox.Session) { atOnce(f.T, reentrant.New(s, "a")) }
	waitsIn := func(f *fixture, s *signalbox.Session) { queuedAndListening(f.Context(), reentrant.New(s, "a")) }
	for name, c := range map[string]struct {
		prepare func(f *fixture, s, other *signalbox.Session)
		fault   func(link *wire) // the fault in the midst of the wait
		held    bool
		refused bool // the error says that no server listens
		// unanswered says that the wait ends after a poll that had no reply.
		unanswered bool
	}{
		"OtherSessionHolds": {prepare: func(f *fixture, _, other *signalbox.Session) { heldBy(f, other) }, held: true},
		"OwnSessionHolds":   {prepare: func(f *fixture, s, _ *signalbox.Session) { heldBy(f, s) }, held: true},
		"BehindAWaiter": {prepare: func(f *fixture, s, other *signalbox.Session) {
			heldBy(f, other)
			waitsIn(f, s)
		}, held: true},
		"PollUnanswered": {
			prepare: func(f *fixture, _, other *signalbox.Session) { heldBy(f, other) },
			fault:   (*wire).goSilent, unanswered: true,
		},
		"Unreachable":               {refused: true},
		"BehindAnUnreachableWaiter": {prepare: func(f *fixture, s, _ *signalbox.Session) { waitsIn(f, s) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cause, ends := range map[error]func(context.Context) (context.Context, context.CancelFunc){
				context.DeadlineExceeded: func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeout(ctx, waits)
				},
				errCause: func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancelCause(ctx)
					time.AfterFunc(waits, func() { cancel(errCause) })
					return ctx, func() { cancel(nil) }
				},
			} {
				bubble(t, func(f *fixture) {
					other, _, closeOther := f.session(f.T, quiet)
					defer closeOther()
					s, link, closeAll := f.session(f.T, quiet)
					defer closeAll()
					if !c.held && !c.unanswered {
						link.refuses.Store(true)
						link.cut()
					}
					if c.prepare != nil {
						c.prepare(f, s, other)
					}
					if c.fault != nil {
						time.AfterFunc(waits/2, func() { c.fault(link) })
					}
					ctx, cancel := ends(f.Context())
					defer cancel()
					var err error
					require.Equal(f, waits, took(func() { _, err = reentrant.New(s, "a").Lock(ctx) }))
					require.ErrorIs(f, err, ctx.Err())
					require.ErrorIs(f, err, cause)
					require.Equal(f, c.held, errors.Is(err, signalbox.ErrHeld))
					var refused *net.OpError
					require.Equal(f, c.refused, errors.As(err, &refused))
					if c.refused {
						require.Equal(f, "dial", refused.Op)
					}
				})
			}
		})
	}
}

// P10: a server that refuses for now is waited for, and a wait that ends before, or a try, reports
// its words.
func TestRefusalIsWaitedForAndReportedInTheServersWords(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"LOADING Redis is loading the dataset in memory", "OOM command not allowed when used memory > 'maxmemory'.",
	} {
		bubble(t, func(f *fixture) {
			s, _, closeAll := f.session(f.T)
			defer closeAll()
			mu := reentrant.New(s, "a")
			until := time.Now().Add(10 * time.Second)
			f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
				refuses := strings.HasPrefix(command, "EVAL") && time.Now().Before(until)
				if refuses {
					c.WriteError(words)
				}
				return refuses
			})
			_, err := mu.TryLock(f.Context())
			require.ErrorIs(f, err, signalbox.ErrRefused)
			require.ErrorContains(f, err, words)
			ctx, cancel := context.WithTimeout(f.Context(), 5*time.Second)
			defer cancel()
			_, err = mu.Lock(ctx)
			require.ErrorIs(f, err, context.DeadlineExceeded)
			require.ErrorIs(f, err, signalbox.ErrRefused)
			require.ErrorContains(f, err, words)
			lease := atOnce(f.T, mu)
			require.WithinRange(f, time.Now(), until, until.Add(time.Second))
			require.NoError(f, lease.Unlock())
		})
	}
}
