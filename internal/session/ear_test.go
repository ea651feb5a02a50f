// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/settings"
)

// listeners answers how many connections listen on the session's own channel.
func listeners(t *testing.T, server *redistest.Server, s *session.Session) int64 {
	t.Helper()
	reply, _ := server.MustDo(t, "PUBSUB", "NUMSUB", names.Session(names.DefaultPrefix, s.ID())).([]any)
	require.Len(t, reply, 2)
	return reply[1].(int64)
}

// P7: it listens while it has something to hear about, and ceases to after it has not.
func TestASessionListensWhileItIsBusy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	for range 2 {
		require.Zero(t, listeners(t, server, s))
		require.NoError(t, s.Begin())
		await(t, "it listens", func() bool { return listeners(t, server, s) == 1 })
		require.NoError(t, s.Begin())
		s.End()
		require.Equal(t, int64(1), listeners(t, server, s))
		s.End()
		await(t, "it listens no more", func() bool { return listeners(t, server, s) == 0 })
		await(t, "no channel is left", func() bool { return s.Dispatch.Channels() == 0 })
	}
}

// P7: locks that are held for a moment, one after the other, cost no subscription.
func TestASessionDoesNotListenForAMoment(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// A machine that stands still while a lock is held makes it be held for long, and may need another try.
	await(t, "a while of moments", func() bool {
		s, before := newSession(t, server), server.CommandStats()["subscribe"].Calls
		longest := time.Duration(0)
		for ends := time.Now().Add(3 * session.ListenAfter); time.Now().Before(ends); {
			began := time.Now()
			require.NoError(t, s.Begin())
			s.End()
			longest = max(longest, time.Since(began))
		}
		return longest < session.ListenAfter/2 && s.Dispatch.Channels() == 0 && server.CommandStats()["subscribe"].Calls == before
	})
}

func TestAPollingSessionDoesNotListen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	set := settings.Default()
	set.Polling = true
	s := session.New(server.Client(t, signalbox.Tune), set, false)
	t.Cleanup(func() { _ = s.Close(endedContext()) })
	other := newSession(t, server) // which is as long busy, and shows when it is time
	require.NoError(t, s.Begin())
	require.NoError(t, other.Begin())
	await(t, "the other listens", func() bool { return listeners(t, server, other) == 1 })
	require.Zero(t, listeners(t, server, s))
	s.End()
	other.End()
}

// tenant counts how often it is asked to look.
type tenant chan struct{}

func (n tenant) Evict(error) {}
func (n tenant) Recheck()    { n <- struct{}{} }

// hold makes n the tenant of a lock, and answers its gate.
func hold(t *testing.T, s *session.Session, key string, n tenant) *gate.Gate {
	t.Helper()
	require.NoError(t, s.Begin())
	g := s.Reentrant(layout.Native()).Gates.Use(key)
	require.True(t, g.Try())
	g.Won(clock.Now(), n)
	t.Cleanup(func() {
		g.Lost()
		s.Reentrant(layout.Native()).Gates.Done(g, clock.Now())
		s.End()
	})
	return g
}

// P2: what was forced before the session listened it asks for when it does; from then on it is told
// of the key that is meant.
func TestASessionAsksForWhatItMayHaveMissed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	a, b := make(tenant, 8), make(tenant, 8)
	hold(t, s, "a", a)
	hold(t, s, "b", b)
	within(t, "the question about a", a)
	within(t, "the question about b", b)
	channel := names.Session(names.DefaultPrefix, s.ID())
	server.MustDo(t, "PUBLISH", channel, "nobody's")
	server.MustDo(t, "PUBLISH", channel, "b")
	within(t, "the question about b", b)
	require.Empty(t, a)

	// After a break the renewals tell: a hundred thousand holds would all ask at once.
	server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
	await(t, "it listens again", func() bool { return listeners(t, server, s) == 1 })
	server.MustDo(t, "PUBLISH", channel, "a")
	within(t, "the question about a", a)
	require.Empty(t, a)
	require.Empty(t, b)
}
