// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// key is the key of the latch "a".
const key = "sb:{a}:latch"

// longest is the longest id.
var longest = strings.Repeat("\x00", countdown.MaxID)

// newSession returns a session of its own, as another process would have it. Its wires are good, so it tolerates a server
// that is silent on a busy machine.
func newSession(tb testing.TB, at redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return locktest.SessionOf(tb, at.Client(tb, locktest.Steady), options...)
}

// mustStart starts a round.
func mustStart(tb testing.TB, l *countdown.Latch, n int) countdown.Round {
	tb.Helper()
	r, err := l.Start(locktest.Context(tb), n)
	require.NoError(tb, err)
	require.NotZero(tb, r.ID())
	return r
}

// mustCount counts an id down, after which so many are left.
func mustCount(tb testing.TB, r countdown.Round, left int, id string) {
	tb.Helper()
	got, err := r.CountDown(locktest.Context(tb), id)
	require.NoError(tb, err)
	require.Equal(tb, left, got)
}

// waitLater waits for a round on another goroutine.
func waitLater(ctx context.Context, r countdown.Round) <-chan error {
	returned := make(chan error, 1)
	go func() { returned <- r.Wait(ctx) }()
	return returned
}

// listening waits for a round of the latch "a" on another goroutine, and returns when its session receives messages.
func listening(tb testing.TB, s *signalbox.Session, r countdown.Round) <-chan error {
	tb.Helper()
	returned := waitLater(locktest.Context(tb), r)
	redistest.Await(tb, "a subscription", func() bool { return (*session.Handle)(s).Session().Dispatch.IsSubscribed(key + ":ended") })
	return returned
}

// as returns a dialer of the server for a user that lacks a right: "-publish".
func as(tb testing.TB, server *redistest.Server, at redistest.Dialer, denied string) redistest.Dialer {
	tb.Helper()
	server.MustDo(tb, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", denied)
	return locktest.User{Server: at, Name: "limited", Password: "secret"}
}
