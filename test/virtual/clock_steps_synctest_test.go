// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/test"
)

// owned is what only one session can have.
type owned struct {
	err     func() error // of its lease
	release func() error
}

// holding acquires what only one session can have.
type holding func(ctx context.Context, s *signalbox.Session) (*owned, error)

// ofLease returns what a lease is.
func ofLease(lease signalbox.Lease, err error) (*owned, error) {
	if err != nil {
		return nil, err
	}
	return &owned{lease.Err, lease.Unlock}, nil
}

// holdings has one of each kind by which a session excludes others. The members of a multilock are acquired in one script or
// by the queue; a run of a once ends with its release.
func holdings() map[string]holding {
	kinds := map[string]holding{
		"Multilock": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			return ofLease(multilock.New(reentrant.New(s, "a"), fair.New(s, "b")).Lock(ctx))
		},
		"KeptWarm": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			mu := reentrant.New(s, "a", signalbox.WithKeepWarm(time.Minute))
			had, err := ofLease(mu.Lock(ctx))
			if err != nil {
				return nil, err
			}
			return &owned{had.err, func() error {
				err := had.release()
				if again, tryErr := mu.TryLock(ctx); tryErr == nil { // a short use, which leaves an idle hold
					return errors.Join(err, again.Unlock())
				}
				return err
			}}, nil
		},
		"Election": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			term, err := election.New(s, "a", election.Value("v")).Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return &owned{term.Err, term.Resign}, nil
		},
		"Once": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			runs, ends, ended := make(chan signalbox.Lease), make(chan struct{}), make(chan error, 1)
			go func() {
				_, _, err := once.New(s, "a").Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
					runs <- lease
					select {
					case <-ends:
					case <-ctx.Done():
					}
					return nil, context.Canceled // it failed: the next one runs
				})
				ended <- err
			}()
			select {
			case lease := <-runs:
				return &owned{lease.Err, func() error { close(ends); <-ended; return nil }}, nil
			case err := <-ended:
				return nil, err
			}
		},
	}
	for _, p := range append(locktest.Primitives(), locktest.Reader()) {
		kinds[p.Name] = func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			return ofLease(p.New(s, "a").Lock(ctx))
		}
	}
	return kinds
}

// heldBefore returns what excludes a kind: readers share, so it is the writer.
func heldBefore(name string) holding {
	if name == locktest.Reader().Name {
		name = locktest.Writer().Name
	}
	return holdings()[name]
}

// stepsClock sets the server's clock by ahead. Keys end by it: they live for longer if it is set back, and end sooner if it is set
// forward.
func (f *fixture) stepsClock(ahead *atomic.Int64, step time.Duration) {
	ahead.Add(int64(step))
	f.redis.SetTime(time.Now().Add(time.Duration(ahead.Load())))
	for _, key := range f.redis.Keys() {
		if left := f.redis.TTL(key); step < 0 && left > 0 { // set forward, the embedded server does that itself
			f.redis.SetTTL(key, left-step)
		}
	}
}

// clockSteps has steps of a server's clock, each a second after the one before.
func clockSteps() [][]time.Duration {
	const year = 365 * 24 * time.Hour
	return [][]time.Duration{
		{100 * time.Second},
		{time.Second},
		{year},
		{-100 * time.Second},
		{-time.Second},
		{-year},
		{-2 * time.Hour},
		{2 * time.Hour},
		{2 * time.Hour, -2 * time.Hour},
		{-2 * time.Hour, 2 * time.Hour},
		{100 * time.Second, -2 * time.Hour},
		{-100 * time.Second, 2 * time.Hour},
		{40 * time.Second, -20 * time.Second},
		{-20 * time.Second, 10 * time.Second},
		{-10 * time.Second, -10 * time.Second},
	}
}

// setBack is by how much steps that are shorter than a lease, the only ones that look like one, can make it longer.
func setBack(steps []time.Duration, lease time.Duration) (most time.Duration) {
	ahead := time.Duration(0)
	for _, step := range steps {
		if ahead += step; -ahead < lease {
			most = max(most, -ahead)
		}
	}
	return most
}

// P1, P2, P6: whatever the step of the server's clock, and whatever the kind, a holder that dies then delays the next one by
// its lease, the step if that is less than a lease, and a second at most. One that lives keeps what it has if the clock was set back, and the next one has it within
// two seconds of the release.
func TestAStepOfTheServersClockCostsOneLease(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second // the default
	for name, take := range holdings() {
		for n, steps := range clockSteps() {
			for _, dies := range []bool{true, false} {
				if redistest.Quick() && n%3 != 0 {
					continue
				}
				t.Run(fmt.Sprint(name, steps, map[bool]string{true: "Dies", false: "Renews"}[dies]), func(t *testing.T) {
					t.Parallel()
					bubbleOfUsers(t, func(f *fixture) {
						holder, link := f.open()
						next := f.user().Session
						ahead := f.skewed()
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						had, err := heldBefore(name)(ctx, holder)
						require.NoError(f, err)
						time.Sleep(15 * time.Second) // it has its whole lease
						waiting := locktest.LaterWith(ctx, func(ctx context.Context) (*owned, error) { return take(ctx, next) })
						time.Sleep(2 * time.Second)
						for _, step := range steps {
							time.Sleep(time.Second)
							f.stepsClock(ahead, step)
						}
						most := 2 * time.Second
						switch {
						case dies:
							most += lease + setBack(steps, lease)
							if name == "Multilock" {
								most += lease // the second member is looked at when the first is acquired
							}
							link.refuses.Store(true)
							link.cut()
						case slices.Max(steps) < 0:
							time.Sleep(3 * lease)
							require.Empty(f, waiting, "it was lost")
							require.NoError(f, had.release())
						default:
							time.Sleep(lease)
							_ = had.release() // it may be lost: guarantees.md has the exception
						}
						time.Sleep(most)
						synctest.Wait()
						require.Len(f, waiting, 1, "it waits for longer than %v", most)
						require.NoError(f, locktest.MustHave(f, waiting).release())
					})
				})
			}
		}
	}
}

// P1, P3: while the server's clock is before tokens count, calls say so: a waiter within two polls, and a session at its first
// contact. When the clock is right again, so are the calls.
func TestAClockBeforeTokensCountIsNamed(t *testing.T) {
	t.Parallel()
	for name, take := range holdings() {
		for _, year := range []int{1970, 1974, 2000, 2024} {
			t.Run(fmt.Sprint(name, year), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					ahead := f.skewed()
					had, err := heldBefore(name)(f.Context(), f.user().Session)
					require.NoError(f, err)
					next := f.user().Session
					waiting := locktest.LaterWith(f.Context(), func(ctx context.Context) (*owned, error) { return take(ctx, next) })
					time.Sleep(15 * time.Second)

					step := time.Until(time.Date(year, time.March, 1, 0, 0, 0, 0, time.UTC))
					f.stepsClock(ahead, step)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					require.Len(f, waiting, 1, "it waits for longer")
					newcomer := f.user().Session
					_, err = take(f.Context(), newcomer)
					for _, err := range []error{locktest.MustFail(f, waiting), err} {
						require.ErrorIs(f, err, signalbox.ErrUnsupported)
						require.ErrorContains(f, err, "the clock of the server has to show a year from 2025 to 2286")
					}
					time.Sleep(time.Minute)

					f.stepsClock(ahead, -step)
					_ = had.release() // what was renewed by the wrong clock has ended by the right one
					again, err := take(f.Context(), newcomer)
					require.NoError(f, err)
					require.NoError(f, again.release())
				})
			})
		}
	}
}

// keyFaults returns what another program may do to a key, as commands, by name: it has now the value now, and there are copies of it.
func keyFaults(key string, now test.BackupKey, copies map[string]test.BackupKey) map[string][][]string {
	clear := []string{"DEL", key}
	all := map[string][][]string{
		"deleted":   {clear},
		"persisted": {{"PERSIST", key}},
		"expiring":  {{"PEXPIRE", key, "1000"}},
		"a string":  {clear, {"SET", key, "x"}},
		"a hash":    {clear, {"HSET", key, "x", "x"}},
		"a list":    {clear, {"RPUSH", key, "x"}},
		"a set":     {clear, {"SADD", key, "x"}},
		"a zset":    {clear, {"ZADD", key, "1", "x"}},
	}
	for age, old := range copies {
		restored := [][]string{clear}
		if old.Text != "" {
			restored = append(restored, []string{"SET", key, old.Text})
		}
		for field, value := range old.Fields {
			restored = append(restored, []string{"HSET", key, field, value})
		}
		for member, score := range old.Members {
			restored = append(restored, []string{"ZADD", key, strconv.FormatFloat(score, 'f', 0, 64), member})
		}
		if len(restored) > 1 {
			all["restored as "+age] = restored
		}
	}
	for _, field := range slices.Sorted(maps.Keys(now.Fields)) {
		all["without field "+field] = [][]string{{"HDEL", key, field}}
		all["empty field "+field] = [][]string{{"HSET", key, field, ""}}
		all["nonsense in field "+field] = [][]string{{"HSET", key, field, strings.Repeat("x", 60)}}
		all["short field "+field] = [][]string{{"HSET", key, field, now.Fields[field][:min(15, len(now.Fields[field]))]}}
	}
	for member := range now.Members {
		all["without member "+member] = [][]string{{"ZREM", key, member}}
		all["score 1 of "+member] = [][]string{{"ZADD", key, "1", member}}
	}
	switch {
	case now.Fields != nil:
		all["one field more"] = [][]string{{"HSET", key, strings.Repeat("x", 22), "x"}}
	case now.Members != nil:
		all["one member more"] = [][]string{{"ZADD", key, strconv.FormatInt(time.Now().Add(100*time.Second).UnixMicro(), 10), "x"}}
	default:
		for _, length := range []int{0, 4, 20, 61, len(now.Text) - 1} {
			if length < len(now.Text) {
				all[fmt.Sprint("the first bytes ", length)] = [][]string{{"SET", key, now.Text[:length], "KEEPTTL"}}
			}
		}
		all["more bytes"] = [][]string{{"SET", key, now.Text + strings.Repeat("x", 80), "KEEPTTL"}}
	}
	return all
}

// faultScene is a name in a state, before a fault.
type faultScene struct {
	*fixture

	ctx      context.Context // of all calls
	sessions []*signalbox.Session
	take     holding // by the next session
	holder   *owned  // nil: the name is free
	waiting  <-chan locktest.Result[*owned]
	copies   map[string]test.Backup // a minute before, and before the last step
}

func (s *faultScene) later(n int, take holding) <-chan locktest.Result[*owned] {
	waiting := locktest.LaterWith(s.ctx, func(ctx context.Context) (*owned, error) { return take(ctx, s.sessions[n]) })
	time.Sleep(100 * time.Millisecond)
	return waiting
}

// newFaultScene makes the state of a name. Another session held it a minute before, and one waited for it.
func (f *fixture) newFaultScene(ctx context.Context, name, state string) *faultScene {
	s := &faultScene{fixture: f, ctx: ctx, take: holdings()[name]}
	for range 3 {
		s.sessions = append(s.sessions, f.user().Session)
	}
	had := heldBefore(name)
	before, err := had(ctx, s.sessions[2])
	require.NoError(f, err)
	waited := s.later(1, s.take)
	time.Sleep(5 * time.Second)
	s.copies = map[string]test.Backup{"a minute ago": backupOf(f.redis)}
	require.NoError(f, before.release())
	require.NoError(f, locktest.MustHave(f, waited).release())
	time.Sleep(70 * time.Second)

	s.holder, err = had(ctx, s.sessions[0])
	require.NoError(f, err)
	time.Sleep(5 * time.Second)
	s.copies["before"] = backupOf(f.redis)
	switch state {
	case "WaitedFor":
		s.waiting = s.later(1, s.take)
	case "HandedOff":
		next := s.later(2, had)
		s.waiting = s.later(1, s.take)
		require.NoError(f, s.holder.release())
		s.holder = locktest.MustHave(f, next)
	case "Free":
		require.NoError(f, s.holder.release())
		s.holder = nil
	}
	return s
}

// P1, P2, P4, P6, P9: whatever another program does to a key of a name, in each state: two have it at once for as long as a renewal
// takes at most, and only if the fault is in the key of the hold; a waiter has it within a lease and two polls of the
// release, or an error that names it if its hold or a type was changed; no call hangs; and when the key is gone the name serves, and leaves
// nothing. If a key is only deleted, a waiter has the lock within two polls, and a holder loses it only with the key of its hold.
func TestAFaultOfAKeyIsBoundedOrNamed(t *testing.T) {
	t.Parallel()
	const renewal, lease, polls = 11 * time.Second, 30 * time.Second, 3 * time.Second
	for name := range holdings() {
		deletedOnly := redistest.Quick() && name != "reentrant" && name != locktest.Writer().Name
		for _, state := range []string{"Held", "WaitedFor", "HandedOff", "Free"} {
			if name == locktest.Reader().Name && state == "HandedOff" {
				continue // readers that wait go before the next writer
			}
			t.Run(name+state, func(t *testing.T) {
				t.Parallel()
				for n, more := 0, true; more; n++ {
					bubbleOfUsers(t, func(f *fixture) {
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						s := f.newFaultScene(ctx, name, state)
						key, what, commands := s.fault(n, deletedOnly)
						if more = commands != nil; !more {
							return
						}
						what = key + ": " + what
						raw, _ := f.client(f.T)
						for _, c := range commands {
							require.NoError(f, raw.Do(ctx, raw.B().Arbitrary(c[0]).Args(c[1:]...).Build()).Error(), what)
						}
						raw.Close()
						if s.waiting == nil {
							s.waiting = s.later(1, s.take)
						}
						var next *owned
						var failed error
						both := time.Duration(0)
						passes := func(d time.Duration) {
							for range d / (100 * time.Millisecond) {
								time.Sleep(100 * time.Millisecond)
								synctest.Wait()
								select {
								case got := <-s.waiting:
									next, failed = got.Value, got.Err
								default:
								}
								if next != nil && s.holder != nil && next.err() == nil && s.holder.err() == nil {
									both += 100 * time.Millisecond
								}
							}
						}
						passes(renewal)
						isHold := strings.HasSuffix(key, "}:lock") || strings.HasSuffix(key, "}:permits")
						if s.holder != nil {
							began := time.Now()
							err := s.holder.release() // it says what became of the key
							require.LessOrEqual(f, time.Since(began), polls, what)
							require.True(f, isHold || !strings.HasSuffix(what, ": deleted") || err == nil, "%s: %v", what, err)
							s.holder = nil
						}
						require.True(f, both == 0 || isHold && both <= renewal, "%s: two had it for %v", what, both)
						passes(polls)
						require.False(f, strings.HasSuffix(what, ": deleted") && next == nil, "%s: it waits still, or failed: %v", what, failed)
						if next == nil && failed == nil {
							passes(lease + 15*time.Second) // keys outlive holds by 15 s
						}
						require.True(f, next != nil || failed != nil, "%s: it waits still", what)
						if failed != nil {
							require.True(f, errors.Is(failed, signalbox.ErrWrongKind) || errors.Is(failed, signalbox.ErrUnsupported), "%s: %v", what, failed)
							require.True(f, isHold || strings.Contains(what, ": a "), "%s: %v", what, failed) // else there is no reason
							_, tag, _ := strings.Cut(key, "{")
							require.ErrorContains(f, failed, `"`+tag[:1], what)
						} else {
							_ = next.release()
						}
						f.redis.Del(key)
						time.Sleep(lease)
						again := s.later(0, s.take)
						time.Sleep(lease + polls)
						synctest.Wait()
						require.Len(f, again, 1, "%s: it serves no more", what)
						require.NoError(f, locktest.MustHave(f, again).release(), what)
						time.Sleep(time.Hour)
						require.Empty(f, f.redis.Keys(), what)
					})
				}
			})
		}
	}
}

// fault returns the fault of that number, no commands if there are no more. deletedOnly leaves out all faults but that of a deleted key.
func (s *faultScene) fault(n int, deletedOnly bool) (key, what string, commands [][]string) { //nolint:revive // a part of the table
	all := backupOf(s.redis)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		copies := make(map[string]test.BackupKey)
		for age, of := range s.copies {
			copies[age] = of[key]
		}
		faults := keyFaults(key, all[key], copies)
		if deletedOnly {
			faults = map[string][][]string{"deleted": faults["deleted"]}
		}
		if n < len(faults) {
			what := slices.Sorted(maps.Keys(faults))[n]
			return key, what, faults[what]
		}
		n -= len(faults)
	}
	return "", "", nil
}
