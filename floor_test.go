// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// floored are the ways in which a name becomes idle, for each kind of lock.
var floored = map[string]struct {
	take  func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error)
	force func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) error
	key   func(names.Set) string
}{
	"reentrant": {
		take: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error) {
			return reentrant.New(s, name, options...).Lock
		},
		force: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) error {
			return reentrant.New(s, name, options...).ForceUnlock
		},
	},
	"fair": {
		take: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error) {
			return fair.New(s, name, options...).Lock
		},
		force: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) error {
			return fair.New(s, name, options...).ForceUnlock
		},
	},
	"writer": {
		take: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error) {
			return rwlock.New(s, name, options...).Lock
		},
		force: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) error {
			return rwlock.New(s, name, options...).ForceUnlock
		},
	},
	"reader": {
		take: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error) {
			return rwlock.New(s, name, options...).RLock
		},
	},
	"semaphore": {
		take: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error) {
			return func(ctx context.Context) (signalbox.Lease, error) {
				return semaphore.New(s, name, 3, options...).Acquire(ctx, 2)
			}
		},
		key: names.Set.Permits,
	},
	"multilock": {
		take: func(s *signalbox.Session, name string, options ...signalbox.LockOption) func(context.Context) (signalbox.Lease, error) {
			return multilock.New(reentrant.New(s, name, options...), reentrant.New(s, name+"/b", options...)).Lock
		},
	},
}

// An idle name is kept for as long as WithTokenFloor says, a minute by default, however it became
// idle.
func TestIdleNameIsKeptForTheTokenFloor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for kind, of := range floored {
		for name, c := range map[string]struct {
			session []signalbox.SessionOption
			lock    []signalbox.LockOption
			want    time.Duration
		}{
			"Default": {want: time.Minute},
			"Lock":    {lock: []signalbox.LockOption{signalbox.WithTokenFloor(24 * time.Hour)}, want: 24 * time.Hour},
			"Session": {
				session: []signalbox.SessionOption{signalbox.WithDefaults(signalbox.WithTokenFloor(10 * time.Minute))},
				want:    10 * time.Minute,
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := locktest.SteadySession(t, server, c.session...)
				set, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, t.Name())
				require.NoError(t, err)
				key := set.Holder
				if of.key != nil {
					key = of.key(set)
				}
				isKept := func() {
					t.Helper()
					ms, _ := server.MustDo(t, "PTTL", key).(int64)
					left := time.Duration(ms) * time.Millisecond
					require.LessOrEqual(t, left, c.want)
					require.Greater(t, left, c.want-redistest.Patience)
				}
				lease, err := of.take(s, t.Name(), c.lock...)(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock())
				isKept()
				if of.force == nil {
					return
				}
				lease, err = of.take(s, t.Name(), c.lock...)(t.Context())
				require.NoError(t, err)
				require.NoError(t, of.force(s, t.Name(), c.lock...)(t.Context()))
				isKept()
				redistest.Receive(t, "the end of the lease", lease.Done())
			})
		}
	}
}

func TestBadTokenFloorIsErrBadOption(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	for _, d := range []time.Duration{-time.Second, 0, time.Second - 1, 24*time.Hour + 1} {
		require.ErrorIs(t, reentrant.New(s, "a", signalbox.WithTokenFloor(d)).Check(), signalbox.ErrBadOption, d)
	}
	for _, d := range []time.Duration{time.Second, 24 * time.Hour} {
		require.NoError(t, reentrant.New(s, "a", signalbox.WithTokenFloor(d)).Check(), d)
	}
}
