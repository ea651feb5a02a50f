// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

func newSession(t *testing.T, options ...signalbox.SessionOption) *signalbox.Session {
	t.Helper()
	s := signalbox.NewSession(redistest.Start(t).Client(t, signalbox.Tune), options...)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// P9: a layout is a lock's own, whatever the session's others have.
func TestLockHasTheRequestedLayout(t *testing.T) {
	t.Parallel()
	s := newSession(t, signalbox.WithPrefix("p:"), signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		key     string
	}{
		"Default": {nil, "a"},
		"Native":  {[]signalbox.LockOption{signalbox.WithLayout(signalbox.Native())}, "p:{a}:lock"},
		"Zero":    {[]signalbox.LockOption{signalbox.WithLayout(signalbox.Layout{})}, "p:{a}:lock"},
	} {
		b := acquire.Make(s, "a", &proto.Reentrant, c.options)
		require.NoError(t, b.Check(), name)
		require.Equal(t, c.key, b.Names.Holder, name)
	}
	both := []signalbox.LockOption{signalbox.WithLayout(signalbox.Native()), signalbox.WithLayout(redisson.Layout(redisson.PlainChannels))}
	twice := acquire.Make(s, "a", &proto.Reentrant, both)
	require.ErrorIs(t, twice.Check(), signalbox.ErrBadOption)
	native := acquire.Make(s, "a", &proto.Reentrant, []signalbox.LockOption{signalbox.WithLayout(signalbox.Native())})
	require.NoError(t, native.Check())
}

func TestInvalidBaseFailsEveryCall(t *testing.T) {
	t.Parallel()
	s, closed := newSession(t), newSession(t)
	require.NoError(t, closed.Close(t.Context()))
	for name, c := range map[string]struct {
		base acquire.Base
		want error
	}{
		"NoSession":     {acquire.Make(nil, "a", &proto.Reentrant, nil), signalbox.ErrBadOption},
		"NoClient":      {acquire.Make(signalbox.NewSession(nil), "a", &proto.Reentrant, nil), signalbox.ErrBadOption},
		"NoName":        {acquire.Make(s, "", &proto.Reentrant, nil), signalbox.ErrBadName},
		"LongName":      {acquire.Make(s, strings.Repeat("x", 513), &proto.Reentrant, nil), signalbox.ErrBadName},
		"NoLayout":      {acquire.Make(s, "a", &proto.Redlock, []signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}), signalbox.ErrBadOption},
		"HashedName":    {acquire.Make(newSession(t, signalbox.WithHashedNames()), "a", &proto.Reentrant, []signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}), signalbox.ErrBadOption},
		"BadOption":     {acquire.Make(s, "a", &proto.Reentrant, []signalbox.LockOption{signalbox.WithFixedLease(0)}), signalbox.ErrBadOption},
		"ClosedSession": {acquire.Make(closed, "a", &proto.Reentrant, nil), signalbox.ErrClosed},
	} {
		require.ErrorIs(t, c.base.Ready(t.Context()), c.want, name)
		var op *signalbox.OpError
		require.ErrorAs(t, c.base.Check(), &op, name)
		require.Equal(t, "check", op.Op)
		require.Equal(t, c.base.Name, op.Name)
		require.ErrorIs(t, op, c.want)
		_, carried, err := c.base.Enter(t.Context(), &hold.Scope{})
		require.False(t, carried)
		require.ErrorIs(t, err, c.want, name)
	}
}

// P10: the log reports leases that were lost, and not holds without a lease.
func TestOnlyALostLeaseIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  hold.End
		want string
	}{
		"Leased":   {hold.End{Cause: signalbox.ErrLost, Leased: true}, "a lease was lost"},
		"Unlocked": {hold.End{Cause: signalbox.ErrLost, Gone: true}, ""},
		"Closed":   {hold.End{Cause: signalbox.ErrClosed, Leased: true}, ""},
	} {
		var lines strings.Builder
		s := newSession(t, signalbox.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		b := acquire.Make(s, "a", &proto.Reentrant, nil)
		b.LogLost(c.end)
		require.NoError(t, s.Close(t.Context()), "which writes what was collected")
		if c.want == "" {
			require.Empty(t, lines.String(), name)
		}
		require.Contains(t, lines.String(), c.want, name)
	}
}
