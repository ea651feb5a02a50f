// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
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

// aliasedRegistry is a registry whose holds do not contain the id of the session.
type aliasedRegistry struct{ registrySpy }

func (aliasedRegistry) Alias() string { return "alias" }

// P2: a session listens by the alias of a registry too, also if the registry comes while it listens.
func TestSessionListensByTheAliasOfARegistry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	own, alias := proto.Session(proto.DefaultPrefix, s.ID()), proto.Session(proto.DefaultPrefix, "alias")
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

// recallSpy is a registry that notes the attempts that are recalled, "" for all.
type recallSpy struct {
	registrySpy

	recalled chan string
}

func (s recallSpy) Recall(attempt string) { s.recalled <- attempt }
func (s recallSpy) RecallAll()            { s.recalled <- "" }
func (s recallSpy) Resubscribed()         {}

// P6: a recall reaches the registries, and so does the end of the subscription. A message of another form is the key of a hold
// that was forced.
func TestSessionListensForRecalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	spy := recallSpy{registrySpy{"recall:": make(holdSpy, 8), "recall:a": make(holdSpy, 8)}, make(chan string, 8)}
	session.RegistryOf(s, "kept", func() recallSpy { return spy })
	s.Timers.Pause() // it does not begin to listen
	require.NoError(t, s.Begin())
	defer s.End()
	early := timers.Now()
	require.False(t, s.Forces.ReceivesRecalls(early))
	s.Forces.ListenForRecalls()
	s.Timers.Resume()
	for _, hold := range spy.registrySpy {
		redistest.Receive(t, "the question about holds that were forced before", hold)
	}
	for range 2 {
		redistest.Await(t, "the subscription", func() bool { return s.Forces.ReceivesRecalls(timers.Now()) })
		require.False(t, s.Forces.ReceivesRecalls(early))
		channel := proto.Session(proto.DefaultPrefix, s.ID())
		const attempt = "0123456789012345678"
		server.MustDo(t, "PUBLISH", channel, "recall:"+attempt)
		require.Equal(t, attempt, redistest.Receive(t, "the recall", spy.recalled))
		for key, hold := range spy.registrySpy {
			require.Empty(t, hold)
			server.MustDo(t, "PUBLISH", channel, key)
			redistest.Receive(t, "the question about "+key, hold)
		}
		require.Empty(t, spy.recalled)
		server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		require.Empty(t, redistest.Receive(t, "the end of the subscription", spy.recalled))
	}
}

// P6: the end of a subscription may be reported after the next one, and the other way round. What is so by now counts.
func TestSubscriptionToRecallsIsThatOfNow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	spy := recallSpy{registrySpy{}, make(chan string, 8)}
	session.RegistryOf(s, "kept", func() recallSpy { return spy })
	require.NoError(t, s.Begin())
	defer s.End()
	s.Forces.ListenForRecalls()
	redistest.Await(t, "the subscription", func() bool { return s.Forces.ReceivesRecalls(timers.Now()) })
	before := timers.Now()
	session.LateUnsubscribed(s)
	require.Empty(t, redistest.Receive(t, "the recall of all", spy.recalled))
	require.False(t, s.Forces.ReceivesRecalls(before))
	redistest.Await(t, "a time after that", func() bool { return s.Forces.ReceivesRecalls(timers.Now()) })

	server.Stop()
	require.Empty(t, redistest.Receive(t, "the end of the subscription", spy.recalled))
	session.LateSubscribed(s)
	require.False(t, s.Forces.ReceivesRecalls(timers.Now()))
	session.LateUnsubscribed(s)
	require.Empty(t, spy.recalled)
}
