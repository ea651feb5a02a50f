// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// listening returns how many connections subscribe to the channel on which a session learns of holds
// that were forced.
func (f *fixture) listening(s *signalbox.Session) int {
	synctest.Wait()
	channel := proto.Session(proto.DefaultPrefix, s.ID())
	return f.redis.PubSubNumSub(channel)[channel]
}

// P4, P7: a session subscribes to its channel once it has held a lock for 100 ms, and unsubscribes
// some seconds after its last release. Then the connection of the subscription is closed too.
func TestSessionListensWhileItHoldsALock(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
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
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		polls := f.user(signalbox.WithPolling()).Session
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

// A waiter that polls a server that stays silent reports the end of its own context, and no other.
func TestWaiterReportsTheEndOfItsOwnContextAlone(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Primitives() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				_, err := kind.New(f.user(quiet).Session, "a").Lock(f.Context())
				require.NoError(f, err)
				s, link := f.open(quiet)
				ctx, cancel := context.WithCancelCause(f.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := kind.New(s, "a").Lock(ctx)
					ended <- err
				}()
				time.Sleep(time.Second)
				link.goSilent()
				time.Sleep(8 * time.Second) // polls end by their time limits, and the connection is not given up yet
				cancel(errCause)
				err = <-ended
				require.ErrorIs(f, err, context.Canceled)
				require.ErrorIs(f, err, errCause)
				require.NotErrorIs(f, err, context.DeadlineExceeded)
				require.NotContains(f, err.Error(), "\n")
			})
		})
	}
}

// P4: a call that was left behind while the client connected for it leaves no connection behind:
// Close closes the client when that call has ended.
func TestCloseWhileTheClientConnectsLeavesNoConnection(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, link := f.owned(quiet)
		require.NoError(f, locked(f.Context(), s))
		synctest.Wait()
		link.latency.Store(int64(600 * time.Millisecond))
		link.cut()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(f.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(f, locked(ctx, s), context.DeadlineExceeded)
		_ = s.Close(locktest.Ended()) // within a second, whatever is left
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(f, f.redis.CurrentConnectionCount())
	})
}

// locked locks and unlocks.
func locked(ctx context.Context, s *signalbox.Session) error {
	lease, err := reentrant.New(s, "a").Lock(ctx)
	if err == nil {
		err = lease.Unlock()
	}
	return err
}

// The first renewal of many locks does not go key by key although the session does not know yet whether one script may have
// keys of several slots.
func TestTheFirstRenewalOfManyLocksWaitsForTheProbe(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		c, link := f.client(f.T)
		defer c.Close()
		s := signalbox.NewSession(c)
		defer func() { require.NoError(f, s.Close(f.Context())) }()
		link.latency.Store(int64(2 * time.Millisecond))
		leases := make([]signalbox.Lease, 300)
		locktest.Together(f, len(leases), func(i int) (err error) {
			leases[i], err = reentrant.New(s, fmt.Sprint("many/", i), signalbox.WithRenewedLease(30*time.Second)).Lock(f.Context())
			return err
		})
		before := f.scripts.Load()
		time.Sleep(15 * time.Second) // each was renewed once
		require.Less(f, f.scripts.Load()-before, int64(100), "300 keys, of which a script has up to 256")
		for _, lease := range leases {
			require.NoError(f, lease.Unlock())
		}
	})
}

// eachYoung runs a test with sessions and options that choose no first lease, and with those that choose 3 s.
func eachYoung(t *testing.T, test func(f *fixture, s *signalbox.Session, link *wire, options []signalbox.LockOption, whole bool)) {
	t.Helper()
	short := []signalbox.LockOption{signalbox.WithFirstLease(3 * time.Second)}
	for name, c := range map[string]struct{ defaults, options []signalbox.LockOption }{
		"NotSet": {}, "Option": {nil, short}, "Default": {short, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s, link := f.open(signalbox.WithDefaults(c.defaults...))
				test(f, s, link, c.options, name == "NotSet")
			})
		})
	}
}

// P2: a term has its whole lease from the start: an outage that begins with it and would end another young hold does not
// end it, unless the caller chose a first lease.
func TestAnOutageEndsNoYoungTerm(t *testing.T) {
	t.Parallel()
	eachYoung(t, func(f *fixture, s *signalbox.Session, link *wire, options []signalbox.LockOption, whole bool) {
		term := leads(f, election.New(s, "a", options...))
		link.goSilent()
		time.Sleep(4 * time.Second)
		link.heal()
		time.Sleep(time.Minute)
		if whole {
			require.NoError(f, term.Err())
			require.NoError(f, term.Resign())
			return
		}
		require.ErrorIs(f, term.Err(), signalbox.ErrLost)
		require.ErrorIs(f, term.Resign(), signalbox.ErrLost)
	})
}

// P2: the function of a once has its whole lease from the start: an outage that begins with it and would end another young
// hold does not let it run twice, unless the caller chose a first lease.
func TestAnOutageEndsNoYoungRunOfOnce(t *testing.T) {
	t.Parallel()
	eachYoung(t, func(f *fixture, s *signalbox.Session, link *wire, options []signalbox.LockOption, whole bool) {
		_, _, err := once.New(s, "a", options...).Do(f.Context(), func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
			link.goSilent()
			time.Sleep(10 * time.Second)
			link.heal()
			time.Sleep(time.Minute)
			return nil, context.Cause(ctx)
		})
		if whole {
			require.NoError(f, err)
			return
		}
		require.ErrorIs(f, err, signalbox.ErrLost)
	})
}
