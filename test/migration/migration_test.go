// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
)

// each is how many acquisitions each version makes.
func each() int { return redistest.Rounds(40, 200) }

// runs returns a version of a service, with a session of its own, that locks as a step of the page shows.
func (f *fixture) runs(step func(*signalbox.Session) lock) version { return ours(step(f.session())) }

// shared is a version that shares a lock by SET with NX, native one that has moved.
func (f *fixture) shared() version { return f.runs(shareSetNX) }
func (f *fixture) native() version { return f.runs(newAlone) }

// moves replaces each version by the next one, while both are live, and at last by native.
func (f *fixture) moves(versions ...func() version) {
	f.Helper()
	for i, next := range append(versions, f.native)[1:] {
		f.count(each(), versions[i](), versions[i](), next(), next())
	}
}

// by returns how to make versions that lock as a step of the page shows.
func (f *fixture) by(step func(*signalbox.Session) lock) func() version {
	return func() version { return f.runs(step) }
}

// P1: a lock by SET with NX is shared by all who write it so. 20,000 acquisitions, and none is lost.
func TestSetNXIsSharedWithOtherLibraries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := []version{f.shared(), f.shared(), f.shared(), f.redsync(), f.redsync(), f.redislock(), f.redislock(), f.byHand()}
	f.count(redistest.Rounds(50, 2500), all...)
	require.Nil(t, f.server.MustDo(t, "GET", f.name), "released")
}

// P1: from redsync, redislock, or by hand: first one service after the other shares the lock, then each has both, then
// the new one alone.
func TestFromALockBySetNX(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func(*fixture) version{"redsync": (*fixture).redsync, "redislock": (*fixture).redislock, "by hand": (*fixture).byHand} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.moves(func() version { return old(f) }, f.shared, f.by(bothBySetNX))
		})
	}
}

// P1: from rueidislock: the holder of all of its keys keeps out those who need a majority of them.
func TestFromRueidislock(t *testing.T) {
	t.Parallel()
	t.Run("1", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		key := func(of *signalbox.Session) multilock.Member {
			return reentrant.New(of, "rueidislock:0:"+f.name, signalbox.WithLayout(setnx.Layout()))
		}
		f.moves(func() version { return f.rueidislock(1) },
			f.by(func(of *signalbox.Session) lock { return multilock.New(key(of)) }),
			f.by(func(of *signalbox.Session) lock { return multilock.New(key(of), reentrant.New(of, f.name)) }))
	})
	t.Run("2", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.moves(func() version { return f.rueidislock(2) }, f.by(shareRueidislock), f.by(bothByRueidislock))
	})
}

// P1: from Redisson's layout, when no Java client is left. What Java shares is in test/interop.
func TestFromRedissonsLayout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	shared := func(of *signalbox.Session) lock {
		return reentrant.New(of, f.name, signalbox.WithLayout(redisson.Layout()))
	}
	f.moves(f.by(shared), f.by(bothByRedisson))
}

// P1: reentrant and fair are one lock: no step is needed between them.
func TestFromReentrantToFair(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.count(each(), f.native(), f.native(), ours(fair.New(f.session(), f.name)), ours(fair.New(f.session(), f.name)))
}

// P1: between kinds: one deployment holds the old and the new lock.
func TestFromOnePermitToALock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	permit := func(of *signalbox.Session) lock { return multilock.New(semaphore.New(of, f.name, 1).Permits(1)) }
	f.moves(f.by(permit), f.by(permitAndLock))
}

// P1: between prefixes and servers: the same with two sessions.
func TestFromOnePrefixToAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := func() *reentrant.Lock { return reentrant.New(f.session(signalbox.WithPrefix("old:")), f.name) }
	f.moves(
		func() version { return ours(old()) },
		f.by(func(of *signalbox.Session) lock { return multilock.New(old(), reentrant.New(of, f.name)) }))
}
