// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// each is how many acquisitions each version makes.
func each() int { return redistest.Rounds(40, 200) }

// runs returns a version of a service, with a session of its own, that locks as a step of the page shows.
func (s *fixture) runs(step func(*signalbox.Session) lock) version { return ours(step(s.session())) }

// shared is a version that shares a lock by SET with NX, native one that has moved.
func (s *fixture) shared() version { return s.runs(shareSetNX) }
func (s *fixture) native() version { return s.runs(newAlone) }

// moves replaces each version by the next one, while both are live, and at last by native.
func (s *fixture) moves(versions ...func() version) {
	s.Helper()
	for i, next := range append(versions, s.native)[1:] {
		s.count(each(), versions[i](), versions[i](), next(), next())
	}
}

// by returns how to make versions that lock as a step of the page shows.
func (s *fixture) by(step func(*signalbox.Session) lock) func() version {
	return func() version { return s.runs(step) }
}

// P1: a lock by SET with NX is shared by all who write it so. 20,000 acquisitions, and none is lost.
func TestSetNXIsSharedWithOtherLibraries(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	all := []version{s.shared(), s.shared(), s.shared(), s.redsync(), s.redsync(), s.redislock(), s.redislock(), s.byHand()}
	s.count(redistest.Rounds(50, 2500), all...)
	require.Nil(t, s.server.MustDo(t, "GET", s.name), "released")
}

// P1: from redsync, redislock, or by hand: first one service after the other shares the lock, then each has both, then
// the new one alone.
func TestFromALockBySetNX(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func(*fixture) version{"redsync": (*fixture).redsync, "redislock": (*fixture).redislock, "by hand": (*fixture).byHand} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.moves(func() version { return old(s) }, s.shared, s.by(bothBySetNX))
		})
	}
}

// P1: from rueidislock: the holder of all of its keys keeps out those who need a majority of them.
func TestFromRueidislock(t *testing.T) {
	t.Parallel()
	t.Run("1", func(t *testing.T) {
		t.Parallel()
		s := newFixture(t)
		key := func(of *signalbox.Session) multilock.Member {
			return reentrant.New(of, "rueidislock:0:"+s.name, signalbox.WithLayout(signalbox.SetNX()))
		}
		s.moves(func() version { return s.rueidislock(1) },
			s.by(func(of *signalbox.Session) lock { return multilock.New(key(of)) }),
			s.by(func(of *signalbox.Session) lock { return multilock.New(key(of), reentrant.New(of, s.name)) }))
	})
	t.Run("2", func(t *testing.T) {
		t.Parallel()
		s := newFixture(t)
		s.moves(func() version { return s.rueidislock(2) }, s.by(shareRueidislock), s.by(bothByRueidislock))
	})
}

// P1: from Redisson's layout, when no Java client is left. What Java shares is in test/interop.
func TestFromRedissonsLayout(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	shared := func(of *signalbox.Session) lock {
		return reentrant.New(of, s.name, signalbox.WithLayout(signalbox.Redisson()))
	}
	s.moves(s.by(shared), s.by(bothByRedisson))
}

// P1: reentrant and fair are one lock: no step is needed between them.
func TestFromReentrantToFair(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.count(each(), s.native(), s.native(), ours(fair.New(s.session(), s.name)), ours(fair.New(s.session(), s.name)))
}

// P1: between kinds: one deployment holds the old and the new lock.
func TestFromOnePermitToALock(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	permit := func(of *signalbox.Session) lock { return multilock.New(semaphore.New(of, s.name, 1).Permits(1)) }
	s.moves(s.by(permit), s.by(permitAndLock))
}

// P1: between prefixes and servers: the same with two sessions.
func TestFromOnePrefixToAnother(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	old := func() *reentrant.Lock { return reentrant.New(s.session(signalbox.WithPrefix("old:")), s.name) }
	s.moves(
		func() version { return ours(old()) },
		s.by(func(of *signalbox.Session) lock { return multilock.New(old(), reentrant.New(of, s.name)) }))
}
