// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// each is how many acquisitions each version makes.
func each() int { return redistest.Rounds(40, 200) }

// shared, both and native are the versions of a service that moves away from a lock by SET with NX.
func (s *site) shared() version {
	return ours(reentrant.New(s.session(), s.name, signalbox.WithLayout(signalbox.SetNX())))
}
func (s *site) native() version { return ours(reentrant.New(s.session(), s.name)) }

func (s *site) both(old func(of *signalbox.Session) multilock.Member) version {
	session := s.session()
	return ours(multilock.New(old(session), reentrant.New(session, s.name)))
}

func (s *site) bothNames() version {
	return s.both(func(of *signalbox.Session) multilock.Member {
		return reentrant.New(of, s.name, signalbox.WithLayout(signalbox.SetNX()))
	})
}

// P1: a lock by SET with NX is shared by all who write it so. 20,000 acquisitions, and none is lost.
func TestSetNXIsSharedWithOtherLibraries(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := []version{s.shared(), s.shared(), s.shared(), s.redsync(), s.redsync(), s.redislock(), s.redislock(), s.byHand()}
	s.count(redistest.Rounds(50, 2500), all...)
	require.Nil(t, s.server.MustDo(t, "GET", s.name), "released")
}

// P1: from redsync, redislock, or by hand: first one service after the other shares the lock, then each has both, then
// the new one alone.
func TestFromALockBySetNX(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func(*site) version{"redsync": (*site).redsync, "redislock": (*site).redislock, "by hand": (*site).byHand} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.count(each(), old(s), old(s), s.shared(), s.shared())
			s.count(each(), s.shared(), s.shared(), s.bothNames(), s.bothNames())
			s.count(each(), s.bothNames(), s.bothNames(), s.native(), s.native())
		})
	}
}

// P1: from rueidislock: the holder of all of its keys keeps out those who need a majority of them.
func TestFromRueidislock(t *testing.T) {
	t.Parallel()
	for _, majority := range []int32{1, 2} {
		t.Run(fmt.Sprint(majority), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			keys := func(of *signalbox.Session) (all []multilock.Member) {
				for i := range 2*majority - 1 {
					all = append(all, reentrant.New(of, fmt.Sprintf("rueidislock:%d:%s", i, s.name), signalbox.WithLayout(signalbox.SetNX())))
				}
				return all
			}
			shared := func() version { return ours(multilock.New(keys(s.session())...)) }
			both := func() version {
				session := s.session()
				return ours(multilock.New(append(keys(session), reentrant.New(session, s.name))...))
			}
			s.count(each(), s.rueidislock(majority), s.rueidislock(majority), shared(), shared())
			s.count(each(), shared(), shared(), both(), both())
			s.count(each(), both(), both(), s.native(), s.native())
		})
	}
}

// P1: from Redisson's layout, when no Java client is left. What Java shares is in test/interop.
func TestFromRedissonsLayout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shared := func() version {
		return ours(reentrant.New(s.session(), s.name, signalbox.WithLayout(signalbox.Redisson())))
	}
	both := func() version {
		return s.both(func(of *signalbox.Session) multilock.Member {
			return reentrant.New(of, s.name, signalbox.WithLayout(signalbox.Redisson()))
		})
	}
	s.count(each(), shared(), shared(), both(), both())
	s.count(each(), both(), both(), s.native(), s.native())
}

// P1: reentrant and fair are one lock: no step is needed between them.
func TestFromReentrantToFair(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.count(each(), s.native(), s.native(), ours(fair.New(s.session(), s.name)), ours(fair.New(s.session(), s.name)))
}

// P1: between kinds, prefixes and servers: one deployment holds the old and the new lock.
func TestFromOneLockToAnother(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func(*site, *signalbox.Session) multilock.Member{
		"one permit": func(s *site, of *signalbox.Session) multilock.Member { return semaphore.New(of, s.name, 1).Permits(1) },
		"prefix": func(s *site, _ *signalbox.Session) multilock.Member {
			return reentrant.New(s.session(signalbox.WithPrefix("old:")), s.name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			only := func() version { return ours(multilock.New(old(s, s.session()))) }
			both := func() version {
				return s.both(func(of *signalbox.Session) multilock.Member { return old(s, of) })
			}
			s.count(each(), only(), only(), both(), both())
			s.count(each(), both(), both(), s.native(), s.native())
		})
	}
}
