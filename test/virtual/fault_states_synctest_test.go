// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/test"
)

// changeScene is a name of which something is under way when a fault happens.
type changeScene struct {
	*fixture

	ctx      context.Context // of all calls
	kind     string
	users    []queueUser
	faults   func() // happens at the moment that the state is about
	ahead    *atomic.Int64
	released chan error // gets what a release returned that was under way
}

// takes returns the outcome of a call of a user, which it makes now.
func (s *changeScene) takes(n int) <-chan locktest.Result[*owned] {
	take := holdings()[s.kind]
	waiting := locktest.LaterWith(s.ctx, func(ctx context.Context) (*owned, error) { return take(ctx, s.users[n].Session) })
	time.Sleep(100 * time.Millisecond)
	return waiting
}

// mustHaveWithin waits for so long, and requires that the outcome is there by then.
func (s *changeScene) mustHaveWithin(most time.Duration, outcome <-chan locktest.Result[*owned], what string) *owned {
	s.Helper()
	time.Sleep(most)
	synctest.Wait()
	require.Len(s, outcome, 1, "%s: it waits for longer than %v", what, most)
	return locktest.MustHave(s, outcome)
}

// holds lets a user have what excludes the kind, for so long that its lease is whole.
func (s *changeScene) holds(n int) *owned {
	had, err := heldBefore(s.kind)(s.ctx, s.users[n].Session)
	require.NoError(s, err)
	time.Sleep(15 * time.Second)
	return had
}

func (s *changeScene) dies(n int) {
	s.users[n].wire.refuses.Store(true)
	s.users[n].wire.cut()
}

// changeStates are what is under way when a fault happens, by name. Each returns the outcome of the last waiter.
func changeStates() map[string]func(s *changeScene) <-chan locktest.Result[*owned] {
	return map[string]func(s *changeScene) <-chan locktest.Result[*owned]{
		// The next caller comes when the clock was set.
		"Newcomer": func(s *changeScene) <-chan locktest.Result[*owned] {
			s.holds(0)
			s.dies(0)
			time.Sleep(time.Second)
			s.faults()
			time.Sleep(time.Second)
			return s.takes(1)
		},
		"DeadForLong": func(s *changeScene) <-chan locktest.Result[*owned] {
			s.holds(0)
			s.dies(0)
			time.Sleep(8 * time.Second)
			s.faults()
			time.Sleep(time.Second)
			return s.takes(1)
		},
		// The first waiter is stopped.
		"FirstWaiterStops": func(s *changeScene) <-chan locktest.Result[*owned] {
			had := s.holds(0)
			s.takes(1)
			time.Sleep(2 * time.Second)
			s.users[1].wire.goSilent()
			s.faults()
			last := s.takes(2)
			time.Sleep(time.Second)
			_ = had.release()
			return last
		},
		// The first waiter was granted it, and does not know it yet, or never will.
		"HandOverToTheDead": func(s *changeScene) <-chan locktest.Result[*owned] {
			had := s.holds(0)
			s.takes(1)
			last := s.takes(2)
			time.Sleep(time.Second)
			s.users[1].wire.goSilent()
			_ = had.release()
			s.faults()
			return last
		},
		"HandOver": func(s *changeScene) <-chan locktest.Result[*owned] {
			had := s.holds(0)
			first, last := s.takes(1), s.takes(2)
			time.Sleep(time.Second)
			s.users[1].wire.swallowsReplies.Store(true)
			_ = had.release()
			s.faults()
			time.Sleep(300 * time.Millisecond)
			s.users[1].wire.heal()
			go func() {
				if got := <-first; got.Err == nil {
					_ = got.Value.release()
				}
			}()
			return last
		},
		// The request to release was lost.
		"Releasing": func(s *changeScene) <-chan locktest.Result[*owned] {
			had := s.holds(0)
			last := s.takes(1)
			time.Sleep(time.Second)
			s.users[0].wire.goSilent()
			go func() { s.released <- had.release() }()
			time.Sleep(300 * time.Millisecond)
			s.faults()
			s.users[0].wire.heal()
			return last
		},
		// The release was executed, its reply was lost, and nobody waits.
		"ReleasingAlone": func(s *changeScene) <-chan locktest.Result[*owned] {
			had := s.holds(0)
			s.users[0].wire.swallowsReplies.Store(true)
			go func() { s.released <- had.release() }()
			time.Sleep(300 * time.Millisecond)
			s.faults()
			s.users[0].wire.heal()
			time.Sleep(time.Second)
			return s.takes(1)
		},
	}
}

// newChangeScene opens the sessions of a scene.
func (f *fixture) newChangeScene(ctx context.Context, kind string) *changeScene {
	s := &changeScene{fixture: f, ctx: ctx, kind: kind, ahead: f.skewed(), released: make(chan error, 1)}
	for range 3 {
		s.users = append(s.users, f.user())
	}
	return s
}

// P1, P6: whatever is under way when the server's clock is set: the next one waits for a lease and two polls at most, from its call or the
// release on, and a step of more than 30 s revives nobody.
func TestAStepOfTheClockDuringAChangeCostsOneLease(t *testing.T) {
	t.Parallel()
	const lease, polls = 30 * time.Second, 3 * time.Second
	for kind := range holdings() {
		for state, begins := range changeStates() {
			if kind == locktest.Reader().Name && strings.HasPrefix(state, "HandOver") {
				continue // readers that wait go before the next writer
			}
			for n, step := range []time.Duration{-2 * time.Hour, 100 * time.Second, -100 * time.Second, 2 * time.Hour, -20 * time.Second, 20 * time.Second} {
				if redistest.Quick() && n > 0 {
					continue
				}
				t.Run(fmt.Sprint(kind, state, step), func(t *testing.T) {
					t.Parallel()
					bubbleOfUsers(t, func(f *fixture) {
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						s := f.newChangeScene(ctx, kind)
						s.faults = func() { f.stepsClock(s.ahead, step) }
						last := begins(s)
						began := time.Now()
						most := lease + polls
						switch {
						case kind == "Multilock":
							most += lease // each of its locks is looked at when the one before is acquired
						case strings.HasSuffix(state, "Stops") && -step > lease:
							most = 2 * polls
						case strings.HasPrefix(state, "Releasing"), state == "HandOver" && step < 0:
							most = polls
						}
						_ = s.mustHaveWithin(most, last, "the last").release()
						require.LessOrEqual(f, time.Since(began), most)
						time.Sleep(lease)
						require.NoError(f, s.mustHaveWithin(polls, s.takes(2), "a later one").release())
					})
				})
			}
		}
	}
}

// P1, P6: of several that share, one dies when the clock is set. The others keep what they have, and when they have released it the next
// one has all of it.
func TestAStepOfTheClockFreesThePartOfTheDead(t *testing.T) {
	t.Parallel()
	kinds := map[string]struct{ share, all holding }{
		"Readers": {
			func(ctx context.Context, s *signalbox.Session) (*owned, error) {
				return ofLease(rwlock.New(s, "a").RLock(ctx))
			},
			func(ctx context.Context, s *signalbox.Session) (*owned, error) {
				return ofLease(rwlock.New(s, "a").Lock(ctx))
			},
		},
		"Permits": {
			func(ctx context.Context, s *signalbox.Session) (*owned, error) {
				return ofLease(semaphore.New(s, "a", 3).Acquire(ctx, 1))
			},
			func(ctx context.Context, s *signalbox.Session) (*owned, error) {
				return ofLease(semaphore.New(s, "a", 3).Acquire(ctx, 3))
			},
		},
	}
	for kind, of := range kinds {
		for _, step := range []time.Duration{-2 * time.Hour, -100 * time.Second, -20 * time.Second, 20 * time.Second, 100 * time.Second, 2 * time.Hour}[:redistest.Rounds(1, 6)] {
			for _, waits := range []bool{true, false} {
				t.Run(fmt.Sprint(kind, step, waits), func(t *testing.T) {
					t.Parallel()
					bubbleOfUsers(t, func(f *fixture) {
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						s := f.newChangeScene(ctx, kind)
						var had []*owned
						for _, u := range s.users[:2] {
							one, err := of.share(ctx, u.Session)
							require.NoError(f, err)
							had = append(had, one)
						}
						time.Sleep(20 * time.Second)
						next := f.user().Session
						var last <-chan locktest.Result[*owned]
						take := func() {
							last = locktest.LaterWith(ctx, func(ctx context.Context) (*owned, error) { return of.all(ctx, next) })
						}
						if waits {
							take()
							time.Sleep(time.Second)
						}
						s.dies(1)
						f.stepsClock(s.ahead, step)
						time.Sleep(15 * time.Second)
						if !waits {
							take()
						}
						time.Sleep(35 * time.Second)
						if step < 0 {
							require.NoError(f, had[0].err())
							require.Empty(f, last)
						}
						_ = had[0].release()
						time.Sleep(3 * time.Second)
						synctest.Wait()
						require.Len(f, last, 1, "it waits still")
						_ = locktest.MustHave(f, last).release()
					})
				})
			}
		}
	}
}

// P6: a holder that hangs with a lease that has an end, and an idle hold whose process died, delay the next one by that lease and one more
// at most when the clock is set back.
func TestAStepOfTheClockRevivesNoBoundedHold(t *testing.T) {
	t.Parallel()
	for _, p := range locktest.Primitives() {
		for name, option := range map[string]signalbox.LockOption{
			"Fixed": signalbox.WithFixedLease(20 * time.Second), "MaxHold": signalbox.WithMaxHold(20 * time.Second), "First": signalbox.WithFirstLease(time.Second),
		} {
			for _, step := range []time.Duration{-2 * time.Hour, -100 * time.Second, 100 * time.Second}[:redistest.Rounds(1, 3)] {
				for _, after := range []time.Duration{500 * time.Millisecond, 10 * time.Second, 19500 * time.Millisecond} {
					t.Run(fmt.Sprint(p.Name, name, step, after), func(t *testing.T) {
						t.Parallel()
						bubbleOfUsers(t, func(f *fixture) {
							ctx, cancel := context.WithCancel(f.Context())
							defer cancel()
							s := f.newChangeScene(ctx, p.Name)
							had, err := p.New(s.users[0].Session, "a", option).Lock(ctx)
							require.NoError(f, err)
							last := s.takes(1)
							time.Sleep(after)
							if name == "First" {
								s.dies(0)
							}
							f.stepsClock(s.ahead, step)
							time.Sleep(20*time.Second - after + 33*time.Second)
							synctest.Wait()
							require.Error(f, had.Err())
							require.Len(f, last, 1, "it waits still")
							_ = locktest.MustHave(f, last).release()
						})
					})
				}
			}
		}
	}
	for _, dies := range []bool{true, false} {
		for _, step := range []time.Duration{-2 * time.Hour, -100 * time.Second, -2 * time.Second, 2 * time.Second, 100 * time.Second} {
			t.Run(fmt.Sprint("Idle", step, dies), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					s := f.newChangeScene(f.Context(), "reentrant")
					mu := reentrant.New(s.users[0].Session, "a", signalbox.WithKeepWarm(time.Minute))
					for range 2 {
						require.NoError(f, atOnce(f.T, mu).Unlock())
						time.Sleep(100 * time.Millisecond)
					}
					require.Equal(f, 1, s.users[0].Session.IdleLocks())
					most := 3 * time.Second
					if dies {
						s.dies(0)
						most += 30 * time.Second
					}
					f.stepsClock(s.ahead, step)
					time.Sleep(1500 * time.Millisecond)
					last := s.takes(1)
					require.NoError(f, s.mustHaveWithin(most, last, "the other").release())
				})
			})
		}
	}
}

// P4, P6: whatever is under way when a key is deleted, or restored from an old copy: the last waiter has the name within two polls if the
// key was only deleted, else within a lease more; and the name serves, and leaves nothing.
func TestAKeyLostDuringAChangeIsBounded(t *testing.T) {
	t.Parallel()
	const renewal, lease, polls = 11 * time.Second, 30 * time.Second, 3 * time.Second
	for kind := range holdings() {
		for state, begins := range changeStates() {
			if kind == locktest.Reader().Name && strings.HasPrefix(state, "HandOver") || strings.HasSuffix(state, "Dead") || strings.HasSuffix(state, "Long") || state == "Newcomer" {
				continue
			}
			if redistest.Quick() && kind != "reentrant" && kind != "KeptWarm" {
				continue
			}
			t.Run(kind+state, func(t *testing.T) {
				t.Parallel()
				for n, more := 0, true; more; n++ {
					bubbleOfUsers(t, func(f *fixture) {
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						s := f.newChangeScene(ctx, kind)
						before, err := heldBefore(kind)(ctx, s.users[2].Session)
						require.NoError(f, err)
						waited := s.takes(1)
						time.Sleep(5 * time.Second)
						copies := map[string]test.Backup{"waited for": backupOf(f.redis)}
						require.NoError(f, before.release())
						require.NoError(f, locktest.MustHave(f, waited).release())
						time.Sleep(70 * time.Second)
						copies["free"] = backupOf(f.redis)
						time.AfterFunc(10*time.Second, func() { copies["held"] = test.BackupOf(f.redis) })
						key, what := "", ""
						s.faults = func() {
							synctest.Wait()
							key, what, more = s.losesKey(n, copies)
						}
						last := begins(s)
						if !more {
							return
						}
						most := polls
						if !strings.HasSuffix(what, "deleted") {
							most += lease + 15*time.Second
						} else if strings.HasSuffix(state, "Stops") {
							most += polls // it is as if living
						}
						_ = s.mustHaveWithin(most, last, what).release()
						f.redis.Del(key)
						time.Sleep(lease + renewal)
						require.NoError(f, s.mustHaveWithin(polls, s.takes(2), what+", and a later one").release(), what)
						time.Sleep(time.Hour)
						f.stepsClock(s.ahead, 0) // no script has said what the time is
						require.Empty(f, f.redis.Keys(), what)
					})
				}
			})
		}
	}
}

// losesKey deletes or restores a key: fault n of all keys and copies. It returns false if there are fewer.
func (s *changeScene) losesKey(n int, copies map[string]test.Backup) (key, what string, is bool) {
	all := test.BackupOf(s.redis)
	keys := slices.Collect(maps.Keys(all))
	for _, of := range copies {
		keys = append(keys, slices.Collect(maps.Keys(of))...)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		faults := map[string]func(){"deleted": func() { s.redis.Del(key) }}
		for age, of := range copies {
			if old, is := of[key]; is {
				faults["restored as "+age] = func() { old.Restore(s.redis, key) }
			}
		}
		names := slices.Sorted(maps.Keys(faults))
		if n < len(names) {
			faults[names[n]]()
			return key, key + ": " + names[n], true
		}
		n -= len(names)
	}
	return "", "", false
}

// happens sets the clock, or deletes or restores a key: fault n of all. It returns false if there are fewer.
func (s *changeScene) happens(n int, copies map[string]test.Backup) (what string, is bool) {
	steps := []time.Duration{-2 * time.Hour, -100 * time.Second, -5 * time.Second, 5 * time.Second, 100 * time.Second, 2 * time.Hour}
	if n < len(steps) {
		s.stepsClock(s.ahead, steps[n])
		return fmt.Sprint("clock ", steps[n]), true
	}
	_, what, is = s.losesKey(n-len(steps), copies)
	return what, is
}

// P6: whatever happens to the clock or to a key while a leader is asked, or stops, or the next one is granted the lead: a candidate leads
// within a lease and two polls, and a later request is heard.
func TestAFaultWhileALeaderChangesIsBounded(t *testing.T) {
	t.Parallel()
	moments := []time.Duration{303 * time.Millisecond, -50 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, 310 * time.Millisecond, time.Second}
	for _, after := range moments[:redistest.Rounds(1, 6)] {
		for _, isNamed := range []bool{true, false} {
			t.Run(fmt.Sprint(after, isNamed), func(t *testing.T) {
				t.Parallel()
				for n, more := 0, true; more; n++ {
					bubbleOfUsers(t, func(f *fixture) {
						s := f.newChangeScene(f.Context(), "Election")
						users := f.queueUsers(4, time.Millisecond)
						e := election.New(users[3].Session, "a")
						for _, u := range users[:3] {
							f.runsElection(u.Session, 300*time.Millisecond)
						}
						copies := map[string]test.Backup{"first": backupOf(f.redis)}
						_, err := e.Handover(f.Context(), "")
						require.NoError(f, err)
						time.Sleep(20 * time.Second)
						copies["second"] = backupOf(f.redis)
						named := ""
						if isNamed {
							named = users[0].Session.ID()
						}
						what, happened := "", make(chan struct{})
						time.AfterFunc(time.Second+after, func() {
							defer close(happened)
							what, more = s.happens(n, copies)
						})
						time.Sleep(time.Second)
						ctx, cancel := context.WithTimeout(f.Context(), 25*time.Second)
						defer cancel()
						began := time.Now()
						_, err = e.Handover(ctx, named)
						took := time.Since(began)
						<-happened
						if err != nil { // candidates do not count until their next poll
							require.True(f, errors.Is(err, signalbox.ErrNotHeld) || errors.Is(err, election.ErrNoCandidate), "%s: %v after %v", what, err, took)
						}
						time.Sleep(20*time.Second - took)
						l, err := e.Leader(f.Context())
						require.NoError(f, err, what)
						next := users[0].Session.ID()
						if l.Session == next {
							next = users[1].Session.ID()
						}
						ctx, cancel = context.WithTimeout(f.Context(), 6*time.Second)
						defer cancel()
						for try := 0; l.Session != next && try < 2; try++ { // an old ticket of that session is passed over
							l, err = e.Handover(ctx, next)
							require.NoError(f, err, what)
							time.Sleep(time.Second)
						}
						require.Equal(f, next, l.Session, what)
					})
				}
			})
		}
	}
}

// P6: whatever happens to the clock or to a key while a function of a once runs, or just after its outcome was stored, callers that wait
// have an outcome: that of the run, one that is stored, or that of their own function, within a lease and two polls.
func TestAFaultWhileAFunctionRunsOnceIsBounded(t *testing.T) {
	t.Parallel()
	const work = 5 * time.Second
	for _, after := range []time.Duration{work + time.Millisecond, time.Second, work - time.Millisecond, work + 100*time.Millisecond}[:redistest.Rounds(1, 4)] {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			for n, more := 0, true; more; n++ {
				bubbleOfUsers(t, func(f *fixture) {
					s := f.newChangeScene(f.Context(), "Once")
					var all []*once.Once
					for _, u := range f.queueUsers(3, time.Millisecond) {
						all = append(all, once.New(u.Session, "a", once.Keep(time.Minute)))
					}
					require.Equal(f, "old", doOnce(f.Context(), all[2], "old", 0).value)
					copies := map[string]test.Backup{"stored": backupOf(f.redis)}
					time.Sleep(61 * time.Second)
					runs, waits := laterOnce(f.Context(), all[0], "runs", work), (<-chan doResult)(nil)
					time.Sleep(100 * time.Millisecond)
					waits = laterOnce(f.Context(), all[1], "waits", work)
					what := ""
					time.Sleep(after - 100*time.Millisecond)
					what, more = s.happens(n, copies)
					time.Sleep(2*work + 33*time.Second)
					synctest.Wait()
					require.Len(f, waits, 1, "%s: it waits still", what)
					got := <-waits
					require.NoError(f, got.err, what)
					require.Contains(f, []string{"old", "runs", "waits"}, got.value, what)
					require.Len(f, runs, 1, "%s: it runs still", what)
					if got = <-runs; got.err != nil {
						require.True(f, errors.Is(got.err, signalbox.ErrLost) || errors.Is(got.err, signalbox.ErrStale), "%s: %v", what, got.err)
					}
					time.Sleep(3 * time.Hour)
					require.Equal(f, "new", doOnce(f.Context(), all[2], "new", 0).value, what)
				})
			}
		})
	}
}

// P1, P6: when the clocks of a quorum are set together a holder that lives keeps its lease if that was back. The next one waits for a greatest
// lease, since servers do not trust their epochs, and if the holder died for one lease and 30 s more.
func TestClocksOfAQuorumThatAreSetTogether(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for _, step := range []time.Duration{-2 * time.Hour, -100 * time.Second, -3 * time.Second, 3 * time.Second, 100 * time.Second, 2 * time.Hour}[:redistest.Rounds(1, 6)] {
		for _, many := range []int{2, 3} {
			for _, state := range []string{"Dies", "Renews", "Free", "Releasing"} {
				t.Run(fmt.Sprint(step, many, state), func(t *testing.T) {
					t.Parallel()
					bubbleOf(t, 3, func(r *redlockServers) {
						life := signalbox.WithRenewedLease(lease)
						r.makeReady()
						one, wires := r.process()
						other, _ := r.process()
						had := r.mustLock(redlock.New(one, "a", life))
						time.Sleep(15 * time.Second)
						ctx, cancel := context.WithCancel(r.Context())
						defer cancel()
						begins := func() <-chan locktest.Result[signalbox.Lease] {
							return locktest.LaterWith(ctx, redlock.New(other, "a", life).Lock)
						}
						var waiting <-chan locktest.Result[signalbox.Lease]
						most := lease + 3*time.Second
						sets := func() {
							for i := range many {
								r.servers[i].stepsClock(&r.ahead[i], step)
							}
						}
						switch state {
						case "Dies":
							waiting, most = begins(), most+lease+30*time.Second
							time.Sleep(time.Second)
							for _, w := range wires {
								w.refuses.Store(true)
								w.cut()
							}
							sets()
						case "Renews":
							waiting = begins()
							time.Sleep(time.Second)
							sets()
							time.Sleep(3 * lease)
							if step < 0 {
								require.NoError(r, had.Err())
								require.Empty(r, waiting)
							}
							_ = had.Unlock()
						case "Free":
							require.NoError(r, had.Unlock())
							time.Sleep(time.Second)
							sets()
							waiting = begins()
						case "Releasing":
							waiting = begins()
							time.Sleep(time.Second)
							for _, w := range wires {
								w.goSilent()
							}
							go func() { _ = had.Unlock() }()
							time.Sleep(300 * time.Millisecond)
							sets()
							for _, w := range wires {
								w.heal()
							}
						}
						time.Sleep(most)
						synctest.Wait()
						require.Len(r, waiting, 1, "it waits still")
						_ = locktest.MustHave(r, waiting).Unlock()
					})
				})
			}
		}
	}
}
