// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// hop is how long the way to a server takes, in one direction.
const hop = 5 * time.Millisecond

// redlockServers is servers that know nothing of each other, each with a clock of its own, in one bubble.
type redlockServers struct {
	*testing.T

	servers []*fixture
	ahead   []atomic.Int64 // the advance of each clock, a time.Duration
	ends    []func()       // functions that close the sessions
}

// setAhead sets by how much the clock of a server is ahead.
func (r *redlockServers) setAhead(i int, by time.Duration) { r.ahead[i].Store(int64(by)) }

func (r *redlockServers) aheadOf(i int) time.Duration { return time.Duration(r.ahead[i].Load()) }

// bubbleOf runs a test in virtual time, with so many servers that are new.
func bubbleOf(t *testing.T, n int, test func(r *redlockServers)) {
	t.Helper()
	locktest.Bubble(t, func(t *testing.T) {
		r := &redlockServers{T: t, ahead: make([]atomic.Int64, n)}
		defer arrive()
		for i := range n {
			f := &fixture{T: t, redis: newEmbedded(t)}
			f.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
				if strings.HasPrefix(command, "EVAL") { // not what scripts call, for which the server is locked
					f.redis.SetTime(time.Now().Add(r.aheadOf(i)))
					f.commands.Add(1)
				}
				return false
			})
			defer f.redis.Close()
			r.servers = append(r.servers, f)
		}
		defer func() {
			for _, end := range r.ends {
				end()
			}
		}()
		test(r)
	})
}

// makeReady lets the servers be known for long enough to grant.
func (r *redlockServers) makeReady() {
	for i, f := range r.servers {
		since := time.Now().Add(r.aheadOf(i) - time.Hour).UnixMicro()
		require.NoError(r, f.redis.Set("sb:epoch", fmt.Sprintf("sb1e%016d%016d", since, since)))
		f.redis.SetTTL("sb:epoch", 7*24*time.Hour)
	}
}

// process returns sessions as a process of its own would have them, with their wires.
func (r *redlockServers) process(options ...signalbox.SessionOption) (sessions []*signalbox.Session, wires []*wire) {
	return r.processOf((*fixture).session, options...)
}

// openSession opens a session, and returns its wire and what closes it.
type openSession = func(f *fixture, t *testing.T, options ...signalbox.SessionOption) (*signalbox.Session, *wire, func())

func (r *redlockServers) processOf(open openSession, options ...signalbox.SessionOption) (sessions []*signalbox.Session, wires []*wire) {
	for _, f := range r.servers {
		s, link, end := open(f, r.T, options...)
		r.ends = append(r.ends, end)
		sessions, wires = append(sessions, s), append(wires, link)
	}
	return sessions, wires
}

// took returns how long something took.
func took(what func()) time.Duration {
	began := time.Now()
	what()
	return time.Since(began)
}

func (r *redlockServers) mustLock(mu *redlock.Lock) (lease signalbox.Lease) {
	lease, err := mu.Lock(r.Context())
	require.NoError(r, err)
	return lease
}

// P6, P7: a Lock takes one way to the server that makes the quorum full, and back; so does an Unlock. Servers that are
// slow, or away, are not waited for.
func TestALockTakesOneRoundTripToAQuorum(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hinder  func(wires []*wire)
		options []signalbox.LockOption
		lock    time.Duration
	}{
		"All":  {func([]*wire) {}, nil, 2 * hop},
		"Slow": {func(w []*wire) { w[0].latency.Store(int64(300 * time.Millisecond)) }, nil, 2 * hop},
		"Dead": {func(w []*wire) { w[1].goSilent(); w[3].goSilent() }, nil, 2 * hop},
		"Gone": {func(w []*wire) {
			for _, i := range []int{0, 4} {
				w[i].refuse()
			}
		}, nil, 2 * hop},
		"Fenced": {func(w []*wire) { w[2].goSilent(); w[4].latency.Store(int64(300 * time.Millisecond)) }, []signalbox.LockOption{redlock.Fenced()}, 4 * hop},
		"ByThree": {func(w []*wire) {
			for i := range w {
				w[i].latency.Store(int64(time.Duration(1+i) * hop))
			}
		}, nil, 6 * hop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 5, func(r *redlockServers) {
				sessions, wires := r.process()
				mu := redlock.New(sessions, "a", c.options...)
				r.warm(mu)
				for _, w := range wires {
					w.latency.Store(int64(hop))
				}
				c.hinder(wires)
				back := 2 * hop
				if name == "ByThree" {
					back = 6 * hop
				}
				for range 3 {
					var lease signalbox.Lease
					require.Equal(t, c.lock, took(func() { lease = r.mustLock(mu) }))
					require.Equal(t, back, took(func() { require.NoError(t, lease.Unlock()) }))
				}
			})
		})
	}
}

// P1, P3: a server whose clock is a minute off keeps other callers out for as long as the others do.
func TestAServerWhoseClockIsAMinuteOffDoesNoHarm(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 5, func(r *redlockServers) {
		r.setAhead(0, time.Minute)
		r.setAhead(3, -time.Minute)
		r.makeReady()
		one, wires := r.process()
		other, otherWires := r.process()
		life := signalbox.WithRenewedLease(10 * time.Second)
		var last uint64
		for i := range 5 {
			for n, w := range append(slices.Clone(wires), otherWires...) {
				w.latency.Store(0)
				if n%5 == i || n%5 == (i+3)%5 { // another quorum each time
					w.latency.Store(int64(400 * time.Millisecond))
				}
			}
			lease := r.mustLock(redlock.New(one, "a", life))
			time.Sleep(25 * time.Second) // renewals
			require.NoError(t, lease.Err())
			_, err := redlock.New(other, "a", life).TryLock(r.Context())
			require.ErrorIs(t, err, signalbox.ErrHeld)
			require.Greater(t, lease.Token(), last, "each was released")
			last = lease.Token()
			require.NoError(t, lease.Unlock())
			one, other = other, one
		}
	})
}

// P1, P2, P6: whatever happens to the clock or to a key of one of three servers, a holder that lives keeps its lease, and if it dies the
// next one has the lock a lease and two polls later.
func TestWhatHappensToOneServerCostsNoLease(t *testing.T) {
	t.Parallel()
	faults := make(map[string]func(r *redlockServers) (isOne bool))
	for n, steps := range clockSteps() {
		if redistest.Quick() && n%3 != 0 {
			continue
		}
		faults["clock "+fmt.Sprint(steps)] = func(r *redlockServers) bool {
			for _, step := range steps {
				time.Sleep(time.Second)
				r.servers[0].stepsClock(&r.ahead[0], step)
			}
			return true
		}
	}
	for n := range redistest.Rounds(2, 60) {
		faults["key "+fmt.Sprint(n)] = func(r *redlockServers) bool { return r.damages(n) }
	}
	for fault, happens := range faults {
		for _, dies := range []bool{true, false} {
			t.Run(fmt.Sprint(fault, dies), func(t *testing.T) {
				t.Parallel()
				bubbleOf(t, 3, func(r *redlockServers) {
					const lease = 10 * time.Second
					life := signalbox.WithRenewedLease(lease)
					r.makeReady()
					one, wires := r.process()
					other, _ := r.process()
					had := r.mustLock(redlock.New(one, "a", life))
					time.Sleep(15 * time.Second)
					ctx, cancel := context.WithCancel(r.Context())
					defer cancel()
					waiting := locktest.LaterWith(ctx, redlock.New(other, "a", life).Lock)
					time.Sleep(2 * time.Second)
					if !happens(r) {
						require.NoError(t, had.Unlock()) // there are no more keys
						require.NoError(t, locktest.MustHave(t, waiting).Unlock())
						return
					}
					if dies {
						for _, w := range wires {
							w.refuses.Store(true)
							w.cut()
						}
						time.Sleep(lease)
					} else {
						time.Sleep(30 * time.Second)
						require.NoError(t, had.Err())
						require.Empty(t, waiting)
						require.NoError(t, had.Unlock())
					}
					time.Sleep(3 * time.Second)
					synctest.Wait()
					require.Len(t, waiting, 1, "it waits still")
					require.NoError(t, locktest.MustHave(t, waiting).Unlock())
				})
			})
		}
	}
}

// damages lets the fault of that number happen to a key of the first server, and reports whether there is one.
func (r *redlockServers) damages(n int) bool {
	f := r.servers[0]
	all := backupOf(f.redis)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		faults := keyFaults(key, all[key], nil)
		if n >= len(faults) {
			n -= len(faults)
			continue
		}
		what := slices.Sorted(maps.Keys(faults))[n]
		r.Logf("%s: %s", key, what)
		raw, _ := f.client(r.T)
		defer raw.Close()
		for _, c := range faults[what] {
			require.NoError(r, raw.Do(r.Context(), raw.B().Arbitrary(c[0]).Args(c[1:]...).Build()).Error(), what)
		}
		return true
	}
	return false
}

// P6, H20: five that ask at the same instant, each nearest to another of five servers, get a vote each and none of them a quorum. What
// parts them is chance alone, in how long each pauses: their steps are of the same length, and would be for ever.
func TestFiveWithAVoteEachArePartedByChance(t *testing.T) {
	t.Parallel()
	readyBubble(t, 5, func(r *redlockServers) {
		var locks []*redlock.Lock
		var ways [][]*wire
		for range 5 {
			sessions, wires := r.process()
			locks, ways = append(locks, redlock.New(sessions, "a")), append(ways, wires)
		}
		for _, mu := range locks {
			r.warm(mu)
		}
		for p, wires := range ways {
			for i, w := range wires {
				w.latency.Store(int64(hop + time.Duration((i+p)%5)*time.Millisecond))
			}
		}
		r.trySplit(locks)
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		done := make(chan error, len(locks))
		for _, mu := range locks {
			go func() {
				lease, err := mu.Lock(ctx)
				if err == nil {
					err = lease.Unlock()
				}
				done <- err
			}()
		}
		for range locks {
			require.NoError(t, <-done)
		}
	})
}

// trySplit lets all try at once, and checks that none of them has a quorum.
func (r *redlockServers) trySplit(locks []*redlock.Lock) {
	results := make(chan error, len(locks))
	for _, mu := range locks {
		go func() {
			_, err := mu.TryLock(r.Context())
			results <- err
		}()
	}
	for range locks {
		require.ErrorIs(r, <-results, signalbox.ErrHeld)
	}
	time.Sleep(time.Second) // what they held is released
}

// P3, P6: a waiter has the lock as soon as the messages of a quorum have come, and a vote; where servers died that it waited for, a
// moment later.
func TestAReleaseOfAQuorumGoesToTheNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead   int
		within time.Duration
	}{"All": {0, 4 * hop}, "TwoDied": {2, 4*hop + 30*time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readyBubble(t, 5, func(r *redlockServers) {
				one, wires := r.process()
				other, otherWires := r.process()
				r.warm(redlock.New(one, "a"))
				held := r.mustLock(redlock.New(one, "a"))
				for i := range wires {
					wires[i].latency.Store(int64(hop))
					otherWires[i].latency.Store(int64(hop))
				}
				var had time.Time
				done := make(chan struct{})
				go func() {
					defer close(done)
					lease, err := redlock.New(other, "a").Lock(r.Context())
					had = time.Now()
					if err != nil || lease.Token() <= held.Token() || lease.Unlock() != nil {
						t.Error("not acquired, not released, or with an old token", err)
					}
				}()
				time.Sleep(1500 * time.Millisecond)
				for i := range c.dead {
					wires[i].goSilent()
					otherWires[i].goSilent()
				}
				began := time.Now()
				require.NoError(t, held.Unlock())
				<-done
				require.LessOrEqual(t, had.Sub(began), c.within)
			})
		})
	}
}
