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
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// keyFaults returns what another program may do to a key, as commands, by name: it has now the value now, and had old once.
func keyFaults(key string, now, old keyBackup) map[string][][]string {
	clear := []string{"DEL", key}
	all := map[string][][]string{
		"persisted": {{"PERSIST", key}},
		"a string":  {clear, {"SET", key, "x"}},
		"a hash":    {clear, {"HSET", key, "x", "x"}},
		"a list":    {clear, {"RPUSH", key, "x"}},
		"a set":     {clear, {"SADD", key, "x"}},
		"a zset":    {clear, {"ZADD", key, "1", "x"}},
	}
	restored := [][]string{clear}
	if old.text != "" {
		restored = append(restored, []string{"SET", key, old.text})
	}
	for field, value := range old.fields {
		restored = append(restored, []string{"HSET", key, field, value})
	}
	for member, score := range old.members {
		restored = append(restored, []string{"ZADD", key, strconv.FormatFloat(score, 'f', 0, 64), member})
	}
	if len(restored) > 1 {
		all["restored"] = restored
	}
	for _, field := range slices.Sorted(maps.Keys(now.fields)) {
		all["without field "+field] = [][]string{{"HDEL", key, field}}
		all["empty field "+field] = [][]string{{"HSET", key, field, ""}}
		all["nonsense in field "+field] = [][]string{{"HSET", key, field, strings.Repeat("x", 60)}}
		all["short field "+field] = [][]string{{"HSET", key, field, now.fields[field][:min(15, len(now.fields[field]))]}}
	}
	for member := range now.members {
		all["without member "+member] = [][]string{{"ZREM", key, member}}
		all["score 1 of "+member] = [][]string{{"ZADD", key, "1", member}}
	}
	switch {
	case now.fields != nil:
		all["one field more"] = [][]string{{"HSET", key, strings.Repeat("x", 22), "x"}}
	case now.members != nil:
		all["one member more"] = [][]string{{"ZADD", key, strconv.FormatInt(time.Now().Add(100*time.Second).UnixMicro(), 10), "x"}}
	default:
		for _, length := range []int{0, 4, 20, 61, len(now.text) - 1} {
			if length < len(now.text) {
				all[fmt.Sprint("the first bytes ", length)] = [][]string{{"SET", key, now.text[:length], "KEEPTTL"}}
			}
		}
		all["more bytes"] = [][]string{{"SET", key, now.text + strings.Repeat("x", 80), "KEEPTTL"}}
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
	old      backup // a minute before
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
		session, _, end := f.session(f.T)
		f.ends = append(f.ends, end)
		s.sessions = append(s.sessions, session)
	}
	had := s.take
	if name == locktest.Reader().Name {
		had = holdings()[locktest.Writer().Name] // readers share
	}
	before, err := had(ctx, s.sessions[2])
	require.NoError(f, err)
	waited := s.later(1, s.take)
	time.Sleep(5 * time.Second)
	s.old = backupOf(f.T, f.redis)
	require.NoError(f, before.release())
	require.NoError(f, locktest.MustHave(f, waited).release())
	time.Sleep(70 * time.Second)

	s.holder, err = had(ctx, s.sessions[0])
	require.NoError(f, err)
	time.Sleep(5 * time.Second)
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

// P1, P4, P6, P9: whatever another program does to a key of a name, in each state: two have it at once for as long as a renewal
// takes at most, and only if the fault is in the key of the hold; a waiter has it within a lease and two polls of the
// release, or an error that names it if its hold or a type was changed; no call hangs; and when the key is gone the name serves, and leaves nothing.
func TestAFaultOfAKeyIsBoundedOrNamed(t *testing.T) {
	t.Parallel()
	const renewal, lease, polls = 11 * time.Second, 30 * time.Second, 3 * time.Second
	for name := range holdings() {
		if redistest.Quick() && name != "reentrant" && name != locktest.Writer().Name {
			continue
		}
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
						key, what, commands := s.fault(n)
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
						if s.holder != nil {
							began := time.Now()
							_ = s.holder.release() // its error says what became of the key
							require.LessOrEqual(f, time.Since(began), polls, what)
							s.holder = nil
						}
						isHold := strings.HasSuffix(key, "}:lock") || strings.HasSuffix(key, "}:permits")
						require.True(f, both == 0 || isHold && both <= renewal, "%s: two had it for %v", what, both)
						passes(polls)
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

// fault returns the fault of that number, no commands if there are no more.
func (s *faultScene) fault(n int) (key, what string, commands [][]string) {
	all := backupOf(s.T, s.redis)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		faults := keyFaults(key, all[key], s.old[key])
		if n < len(faults) {
			what := slices.Sorted(maps.Keys(faults))[n]
			return key, what, faults[what]
		}
		n -= len(faults)
	}
	return "", "", nil
}
