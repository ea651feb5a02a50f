// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// listening returns how many connections subscribe to the channel on which a session learns of holds
// that were forced.
func (f *fixture) listening(s *signalbox.Session) int {
	synctest.Wait()
	channel := names.Session(names.DefaultPrefix, s.ID())
	return f.redis.PubSubNumSub(channel)[channel]
}

// P4, P7: a session subscribes to its channel once it has held a lock for 100 ms, and unsubscribes
// some seconds after its last release. Then the connection of the subscription is closed too.
func TestSessionListensWhileItHoldsALock(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		mu := reentrant.New(s, "a")
		for range 2 {
			lease := atOnce(f.T, mu)
			time.Sleep(90 * time.Millisecond)
			require.Zero(f, f.listening(s))
			time.Sleep(20 * time.Millisecond)
			require.Equal(f, 1, f.listening(s))
			inner, err := mu.Lock(lease.Enter(f.Context()))
			require.NoError(f, err)
			require.NoError(f, inner.Unlock())
			time.Sleep(time.Minute)
			require.Equal(f, 1, f.listening(s))
			require.NoError(f, lease.Unlock())
			require.Equal(f, 1, f.listening(s))
			time.Sleep(10 * time.Second)
			require.Zero(f, f.listening(s))
			require.Zero(f, locktest.Channels(s))
			require.Equal(f, 1, f.redis.CurrentConnectionCount(), "the connection for commands")
		}
	})
}

// P7: locks that are held for a moment, one after the other, cost no subscription; nor does any
// lock of a session that polls.
func TestSessionThatNeedsNoMessageDoesNotListen(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		polls, _, closePolls := f.session(f.T, signalbox.WithPolling())
		defer closePolls()
		held := atOnce(f.T, reentrant.New(polls, "held"))
		for range 100 {
			lease := atOnce(f.T, reentrant.New(s, "a"))
			time.Sleep(40 * time.Millisecond)
			require.NoError(f, lease.Unlock())
			require.Zero(f, f.listening(s))
			require.Zero(f, f.listening(polls))
		}
		require.NoError(f, held.Unlock())
	})
}

// P2: Close waits for a holder no longer than its lease lasts, and for one that is lost not at all.
func TestCloseWaitsForNoLeaseThatIsLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		lease := atOnce(f.T, reentrant.New(s, "a", signalbox.WithFixedLease(2*time.Second)))
		ends := lease.Deadline()
		require.NoError(f, s.Close(context.Background()))
		require.WithinRange(f, time.Now(), ends, ends.Add(10*time.Millisecond))
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		require.NotErrorIs(f, lease.Err(), signalbox.ErrClosed)
	})
}

// P10: if the client gives a silent server up by its own time limit, the error is ErrNoReply and no
// context's, whether or not the client is tuned.
func TestTimeLimitOfTheClientIsErrNoReply(t *testing.T) {
	t.Parallel()
	for name, tune := range map[string]func(*rueidis.ClientOption){"Tuned": signalbox.Tune, "Untuned": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				link := new(wire)
				o := rueidis.ClientOption{
					InitAddress: []string{"embedded"}, ForceSingleClient: true, AlwaysRESP2: true, DisableCache: true,
					DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
						return link.dial(f.redis)
					},
				}
				if tune != nil {
					tune(&o)
				}
				client, err := rueidis.NewClient(o)
				require.NoError(f, err)
				defer client.Close()
				s := signalbox.NewSession(client)
				defer func() { _ = s.Close(endedContext()) }()
				require.NoError(f, locked(f.Context(), s))
				link.goSilent()
				_, err = reentrant.New(s, "a").TryLock(context.Background())
				require.ErrorIs(f, err, signalbox.ErrNoReply)
				require.NotErrorIs(f, err, context.DeadlineExceeded)
				require.NotErrorIs(f, err, context.Canceled)
				link.cut()
				time.Sleep(time.Minute)
			})
		})
	}
}

// P3: an idle name is kept for as long as WithTokenFloor says on a quorum of servers.
func TestIdleNameIsKeptForTheTokenFloorByAQuorum(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 3, func(r *redlockServers) {
		r.makeReady()
		sessions, _ := r.process()
		lease := r.mustLock(redlock.New(sessions, "a", signalbox.WithTokenFloor(time.Hour)))
		require.NoError(r, lease.Unlock())
		time.Sleep(time.Second)
		kept := 0
		for _, f := range r.servers {
			if left := f.redis.TTL(locktest.Key("a")); left > time.Hour-2*time.Second {
				require.LessOrEqual(r, left, time.Hour)
				kept++
			}
		}
		require.GreaterOrEqual(r, kept, 2)
	})
}
