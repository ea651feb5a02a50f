// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The client connects inside of a call, and the server takes connections and says nothing: the call
// still ends with its context, and so do those that wait for the same connection.
func TestCallsEndOnTimeWhileTheClientConnects(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, link, closeSession := f.session(t, quiet)
		defer closeSession()
		lease, err := reentrant.New(s, "held").Lock(t.Context())
		require.NoError(t, err)
		link.goSilent()
		link.cut()
		synctest.Wait()
		late := func() time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			return took(func() {
				_, err := reentrant.New(s, "other").Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		beside := make(chan time.Duration, 1)
		go func() { beside <- late() }()
		require.Equal(t, 100*time.Millisecond, late())
		require.Equal(t, 100*time.Millisecond, <-beside)
		require.Equal(t, time.Second, took(func() {
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrUnconfirmed)
		}))
		link.heal()
		_, err = reentrant.New(s, "other").Lock(t.Context())
		require.NoError(t, err)
	})
}

// A waiter that polls a server that stays silent reports the end of its own context, and no other.
func TestWaiterReportsTheEndOfItsOwnContextAlone(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Primitives() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				t := f.T
				other, _, closeOther := f.session(t, quiet)
				defer closeOther()
				_, err := kind.New(other, "a").Lock(t.Context())
				require.NoError(t, err)
				s, link, closeSession := f.session(t, quiet)
				defer closeSession()
				ctx, cancel := context.WithCancelCause(t.Context())
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
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, errCause)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.NotContains(t, err.Error(), "\n")
			})
		})
	}
}

// P4: a call that was left behind while the client connected for it leaves no connection behind:
// Close closes the client when that call has ended.
func TestCloseWhileTheClientConnectsLeavesNoConnection(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, link := f.owned(quiet)
		require.NoError(t, locked(t.Context(), s))
		synctest.Wait()
		link.latency.Store(int64(600 * time.Millisecond))
		link.cut()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, locked(ctx, s), context.DeadlineExceeded)
		_ = s.Close(endedContext()) // within a second, whatever is left
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, f.redis.CurrentConnectionCount())
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
