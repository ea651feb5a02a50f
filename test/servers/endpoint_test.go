// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// P10: a quorum is made of single servers, and says so of others.
func TestAQuorumOfShardsIsRefused(t *testing.T) {
	t.Parallel()
	router := redistest.NewRouter(t, redistest.Refusing, redistest.Start(t), redistest.Start(t))
	var sessions []*signalbox.Session
	for range 3 {
		sessions = append(sessions, locktest.SteadySession(t, router))
	}
	for _, take := range []func(context.Context) (signalbox.Lease, error){redlock.New(sessions, "a").Lock, redlock.New(sessions, "a").TryLock} {
		_, err := take(locktest.Context(t))
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "CROSSSLOT")
	}
}

// P4, P5: an error that a proxy invents for a script with keys of several slots leaves no member held.
func TestInventedErrorsLeaveNoMember(t *testing.T) {
	t.Parallel()
	for _, script := range []*scripts.Script{scripts.LockAcquireMany, scripts.LockReleaseMany} {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			router := redistest.NewRouter(t, redistest.OneShard, server)
			s := locktest.SteadySession(t, router)
			require.True(t, locktest.LearnSlots(s))
			var invented atomic.Int64
			router.InjectErrors(func(words []string) string {
				if locktest.RunsScript(script)(words) && invented.Add(1) == 1 {
					return "ERR upstream failure"
				}
				return ""
			})
			many := multilock.New(reentrant.New(s, "x"), reentrant.New(s, "y"), reentrant.New(s, "z"))
			lease, err := many.Lock(locktest.Context(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock())
			require.EqualValues(t, 1, invented.Load(), "from then on slot by slot")
			view := locktest.NewView(t, server)
			redistest.Await(t, "the end of every hold and ticket", func() bool {
				immortal, held, err := view.Leaks()
				require.NoError(t, err)
				require.Empty(t, immortal)
				return len(held) == 0
			})
		})
	}
}
