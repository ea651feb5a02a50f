// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// holdSpy counts how often it is asked to check.
type holdSpy chan struct{}

func (s holdSpy) Evict(error) {}
func (s holdSpy) Superseded() {}
func (s holdSpy) Recheck()    { s <- struct{}{} }

// registrySpy is a registry that has holds, by key.
type registrySpy map[string]holdSpy

func (registrySpy) Refuse(error) {}
func (registrySpy) Close()       {}

func (s registrySpy) LocalHolds(key string, _ bool) (all []session.LocalHold) {
	for of, hold := range s {
		if key == "" || key == of {
			all = append(all, hold)
		}
	}
	return all
}

// hold registers holds until the test ends.
func hold(t *testing.T, s *session.Session, holds registrySpy) {
	t.Helper()
	session.RegistryOf(s, "held", func() registrySpy { return holds })
	for range holds {
		require.NoError(t, s.Begin())
		t.Cleanup(s.End)
	}
}

// P2: when the session starts to listen, it asks for holds that were forced before; from then on it asks for
// the key that a message names.
func TestSessionAsksForHoldsForcedBeforeItListened(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	a, b := make(holdSpy, 8), make(holdSpy, 8)
	hold(t, s, registrySpy{"a": a, "b": b})
	redistest.Receive(t, "the question about a", a)
	redistest.Receive(t, "the question about b", b)
	channel := names.Session(names.DefaultPrefix, s.ID())
	server.MustDo(t, "PUBLISH", channel, "nobody's")
	server.MustDo(t, "PUBLISH", channel, "b")
	redistest.Receive(t, "the question about b", b)
	require.Empty(t, a)

	// After a break the renewals find out: a hundred thousand holds would all ask at once.
	server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Await(t, "it listens again", func() bool { return locktest.Listeners(t, server, channel) == 1 })
	server.MustDo(t, "PUBLISH", channel, "a")
	redistest.Receive(t, "the question about a", a)
	require.Empty(t, a)
	require.Empty(t, b)
}

// aliasedRegistry is a registry whose holds do not contain the id of the session.
type aliasedRegistry struct{ registrySpy }

func (aliasedRegistry) Alias() string { return "alias" }

// P2: a session listens by the alias of a registry too, also if the registry comes while it listens.
func TestSessionListensByTheAliasOfARegistry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	own, alias := names.Session(names.DefaultPrefix, s.ID()), names.Session(names.DefaultPrefix, "alias")
	require.NoError(t, s.Begin())
	defer s.End()
	redistest.Await(t, "it listens", func() bool { return locktest.Listeners(t, server, own) == 1 })
	require.Zero(t, locktest.Listeners(t, server, alias))
	a := make(holdSpy, 8)
	for range 2 {
		session.RegistryOf(s, "aliased", func() aliasedRegistry { return aliasedRegistry{registrySpy{"a": a}} })
	}
	redistest.Receive(t, "the question about what was forced before", a)
	server.MustDo(t, "PUBLISH", alias, "a")
	redistest.Receive(t, "the question about a", a)
	server.MustDo(t, "PUBLISH", own, "a")
	redistest.Receive(t, "the question about a", a)
	require.Empty(t, a)
}

func TestSessionThatIsIdleListensByNoName(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a channel lingers for seconds")
	server := redistest.Start(t)
	s := newSession(t, server)
	session.RegistryOf(s, "aliased", func() aliasedRegistry { return aliasedRegistry{} })
	listeners := func() [2]int {
		return [2]int{
			locktest.Listeners(t, server, names.Session(names.DefaultPrefix, s.ID())),
			locktest.Listeners(t, server, names.Session(names.DefaultPrefix, "alias")),
		}
	}
	for range 2 {
		require.NoError(t, s.Begin())
		redistest.Await(t, "it listens", func() bool { return listeners() == [2]int{1, 1} })
		s.End()
		redistest.Await(t, "it does not listen", func() bool { return listeners() == [2]int{} })
	}
}
