// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// What the Java client sends to take a lock, as docs/redisson-protocol.md has it.
const (
	javaTakes = `local me = '` + javas + `'
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], me) == 1 then
  redis.call('HINCRBY', KEYS[1], me, 1) redis.call('PEXPIRE', KEYS[1], 60000)
end`
	othersTake = `redis.call('SET', KEYS[1], '` + foreigns + `', 'NX', 'PX', 60000)`
	javaQueues = `local me, now = '` + javas + `', 1780000000000
while true do
  local first = redis.call('LINDEX', KEYS[2], 0)
  local till = first and redis.call('ZSCORE', KEYS[3], first)
  if not till or tonumber(till) > now then break end
  redis.call('ZREM', KEYS[3], first) redis.call('LPOP', KEYS[2])
end
local first = redis.call('LINDEX', KEYS[2], 0)
if redis.call('EXISTS', KEYS[1]) == 0 and (not first or first == me) then
  redis.call('LPOP', KEYS[2]) redis.call('ZREM', KEYS[3], me)
  for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    redis.call('ZINCRBY', KEYS[3], -300000, other)
  end
  redis.call('HSET', KEYS[1], me, 1) redis.call('PEXPIRE', KEYS[1], 60000)
elseif redis.call('HEXISTS', KEYS[1], me) == 0 and not redis.call('ZSCORE', KEYS[3], me) then
  redis.call('ZADD', KEYS[3], now + 600000, me) redis.call('RPUSH', KEYS[2], me)
end`
	javaReads = `local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode or mode == 'read' then
  redis.call('HSET', KEYS[1], 'mode', 'read', '` + javas + `', 1)
  redis.call('SET', KEYS[1] .. ':` + javas + `:rwlock_timeout:1', 1, 'PX', 60000)
  redis.call('PEXPIRE', KEYS[1], 60000)
end`
	javaBuys = `local ended = redis.call('ZRANGE', KEYS[2], '-inf', '1780000000000', 'BYSCORE', 'LIMIT', 0, 1)
if #ended > 0 then redis.call('ZREM', KEYS[2], ended[1]) redis.call('INCRBY', KEYS[1], 1) end
if tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then
  redis.call('DECRBY', KEYS[1], 1) redis.call('ZADD', KEYS[2], 1780000060000, 'a permit of Java')
end`
	javaCounts = `if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('DECR', KEYS[1]) <= 0 then
  redis.call('DEL', KEYS[1])
end`
)

// minute is what all holds here ask for, and pub how they publish.
const minute, pub = "60000", "PUBLISH"

func permitKeys(f *fixture) []string { return []string{f.key, f.key + ":timeout"} }

// The kinds of locks that Java shares, with every step of theirs.
var (
	plainKind = &sharedKind{java: javaTakes, keys: alone, sound: soundLock, steps: func(f *fixture) map[string]step {
		return map[string]step{
			"acquire":  {scripts.Load("redisson/acquire", 1), alone(f), []any{gos, minute, later, pub, f.channel, "1"}},
			"release":  {scripts.Load("redisson/release", 1), alone(f), []any{gos, pub, f.channel}},
			"poll":     {scripts.Load("redisson/poll", 1), alone(f), []any{""}},
			"renew":    {scripts.Load("redisson/renew", 1), alone(f), []any{gos, minute}},
			"describe": {scripts.Load("redisson/describe", 1), alone(f), nil},
			"force":    {scripts.Load("redisson/force", 1), alone(f), []any{javas, pub, f.channel, "told"}},
		}
	}}
	setnxKind = &sharedKind{java: othersTake, keys: alone, sound: soundValue, steps: func(f *fixture) map[string]step {
		return map[string]step{
			"acquire":  {scripts.Load("setnx/acquire", 1), alone(f), []any{natives, minute, later, pub, f.channel, "1"}},
			"release":  {scripts.Load("setnx/release", 1), alone(f), []any{natives, pub, f.channel}},
			"poll":     {scripts.Load("setnx/poll", 1), alone(f), []any{""}},
			"renew":    {scripts.Load("setnx/renew", 1), alone(f), []any{natives, minute}},
			"describe": {scripts.Load("setnx/describe", 1), alone(f), nil},
			"force":    {scripts.Load("setnx/force", 1), alone(f), []any{foreigns, pub, f.channel, "told"}},
		}
	}}
	fencedKind = &sharedKind{java: javaTakes, keys: alone, sound: soundLock, steps: func(f *fixture) map[string]step {
		keys := []string{f.key, f.key + ":token"}
		return map[string]step{
			"acquire": {scripts.Load("redisson/fence", 1), keys, []any{gos, minute, later, pub, f.channel, "1"}},
			"release": {scripts.Load("redisson/release", 1), keys, []any{gos, pub, f.channel}},
			"force":   {scripts.Load("redisson/force", 1), keys, []any{javas, pub, f.channel, "told"}},
		}
	}}
	fairKind = &sharedKind{
		java: javaQueues, sound: soundQueue,
		keys: func(f *fixture) []string { return javaQueue{f, wait}.keys() },
		steps: func(f *fixture) map[string]step {
			j := javaQueue{f, wait}
			enter := func(hold, waits string) step {
				return step{scripts.Load("redisson/fair-acquire", 1), j.keys(), []any{hold, minute, later, pub, j.notified(), waits, wait}}
			}
			return map[string]step{
				"acquire":       enter(gos, "1"),
				"acquire tries": enter(gos, "0"),
				"other":         enter(goes(2), "1"),
				"third":         enter(goes(3), "1"),
				"release":       {scripts.Load("redisson/fair-release", 1), j.keys(), []any{gos, pub, j.notified(), wait}},
				"force":         {scripts.Load("redisson/fair-force", 1), j.keys(), []any{javas, pub, j.notified(), "told"}},
				"waiters":       {scripts.Load("redisson/fair-waiters", 1), j.keys()[1:], []any{0, 10}},
				"describe":      {scripts.Load("redisson/describe", 1), alone(f), nil},
			}
		},
	}
	rwKind = &sharedKind{java: javaReads, keys: alone, sound: soundRW, steps: func(f *fixture) map[string]step {
		enter := func(side string) step {
			return step{scripts.Load("redisson/rwlock-acquire", 1), alone(f), []any{gos, minute, later, pub, f.channel, "1", side}}
		}
		return map[string]step{
			"acquire reads":  enter(reader),
			"acquire writes": enter(writer),
			"release":        {scripts.Load("redisson/rwlock-release", 1), alone(f), []any{gos, pub, f.channel}},
			"renew":          {scripts.Load("redisson/rwlock-renew", 1), alone(f), []any{gos, minute}},
			"poll":           {scripts.Load("redisson/rwlock-poll", 1), alone(f), []any{""}},
			"may-share":      {scripts.Load("redisson/rwlock-may-share", 1), alone(f), []any{gos}},
			"downgrade":      {scripts.Load("redisson/rwlock-downgrade", 1), alone(f), []any{gos, "", pub, f.channel}},
			"list":           {scripts.Load("redisson/rwlock-list", 1), alone(f), []any{"", 0, 10}},
			"force":          {scripts.Load("redisson/rwlock-force", 1), alone(f), []any{pub, f.channel, "told:", "session\n" + gos + "\n"}},
			"describe":       {scripts.Load("redisson/describe", 1), alone(f), nil},
		}
	}}
	permitKind = &sharedKind{java: javaBuys, keys: permitKeys, sound: soundPermits, steps: func(f *fixture) map[string]step {
		both, all, old := permitKeys(f), permitsHold("go", 3), permitsHold("old", 4)
		enter := func(hold string) step {
			args := []any{hold, minute, later, pub, f.channel, "0", 6, "0", "1"}
			return step{scripts.Load("redisson/permit-acquire", 1), both, args}
		}
		return map[string]step{
			"acquire":   enter(all),
			"other":     enter(permitsHold("other", 2)),
			"old":       enter(old),
			"split":     {scripts.Load("redisson/permit-split", 1), both, []any{all, minute, later, old, pub, f.channel, 6, "0", "1"}},
			"release":   {scripts.Load("redisson/permit-release", 1), both, []any{all, pub, f.channel}},
			"renew":     {scripts.Load("redisson/permit-renew", 1), both[1:], []any{all, minute}},
			"resize":    {scripts.Load("redisson/permit-resize", 1), both, []any{6, later, pub, f.channel}},
			"available": {scripts.Load("redisson/permit-available", 1), both, nil},
			"list":      {scripts.Load("redisson/permit-list", 1), both[1:], []any{"", 0, 10}},
			"force":     {scripts.Load("redisson/permit-force", 1), both, []any{pub, f.channel, "told:", "session", permitID("go", 1) + permitID("go", 3)}},
		}
	}}
	latchKind = &sharedKind{java: javaCounts, keys: alone, sound: soundLatch, steps: func(f *fixture) map[string]step {
		return map[string]step{
			"start": {scripts.Load("redisson/latch-start", 1), alone(f), []any{"", 3, 0, later, pub, f.channel}},
			"count": {scripts.Load("redisson/latch-count", 1), alone(f), []any{"", "", pub, f.channel}},
			"read":  {scripts.Load("redisson/latch-read", 1), alone(f), []any{"", pub, f.channel}},
			"reset": {scripts.Load("redisson/latch-reset", 1), alone(f), []any{"", pub, f.channel}},
		}
	}}
)

// repeats are the steps that are sent twice, each with what was done before it.
var repeats = []struct {
	kind   *sharedKind
	before []string
	verb   string
}{
	{plainKind, nil, "acquire"},
	{plainKind, []string{"java"}, "acquire"},
	{plainKind, []string{"acquire"}, "release"},
	{plainKind, []string{"acquire"}, "poll"},
	{plainKind, []string{"acquire"}, "renew"},
	{plainKind, []string{"acquire"}, "describe"},
	{plainKind, []string{"java"}, "force"},
	{setnxKind, nil, "acquire"},
	{setnxKind, []string{"java"}, "acquire"},
	{setnxKind, []string{"acquire"}, "release"},
	{setnxKind, []string{"acquire"}, "poll"},
	{setnxKind, []string{"acquire"}, "renew"},
	{setnxKind, []string{"acquire"}, "describe"},
	{setnxKind, []string{"java"}, "force"},
	{fencedKind, nil, "acquire"},
	{fencedKind, []string{"acquire"}, "release"},
	{fairKind, nil, "acquire"},
	{fairKind, []string{"java"}, "acquire"},
	{fairKind, []string{"java", "other"}, "acquire"},
	{fairKind, []string{"other", "third"}, "acquire"},
	{fairKind, []string{"other", "third"}, "acquire tries"},
	{fairKind, []string{"acquire", "other", "java"}, "release"},
	{fairKind, []string{"java", "other", "acquire", "third"}, "release"},
	{fairKind, []string{"java", "acquire", "other"}, "force"},
	{fairKind, []string{"java", "acquire", "other"}, "waiters"},
	{rwKind, nil, "acquire reads"},
	{rwKind, []string{"java"}, "acquire reads"},
	{rwKind, nil, "acquire writes"},
	{rwKind, []string{"java"}, "acquire writes"},
	{rwKind, []string{"acquire reads", "java"}, "release"},
	{rwKind, []string{"acquire writes"}, "release"},
	{rwKind, []string{"acquire reads", "java"}, "renew"},
	{rwKind, []string{"acquire writes"}, "renew"},
	{rwKind, []string{"acquire reads"}, "poll"},
	{rwKind, []string{"acquire reads", "java"}, "may-share"},
	{rwKind, []string{"acquire writes"}, "downgrade"},
	{rwKind, []string{"acquire reads", "java"}, "list"},
	{rwKind, []string{"acquire reads", "java"}, "force"},
	{permitKind, nil, "acquire"},
	{permitKind, []string{"resize", "other"}, "acquire"},
	{permitKind, []string{"other", "java"}, "acquire"},
	{permitKind, []string{"old"}, "split"},
	{permitKind, []string{"old", "java"}, "split"},
	{permitKind, []string{"acquire", "java"}, "release"},
	{permitKind, []string{"acquire", "java"}, "renew"},
	{permitKind, []string{"acquire", "java"}, "resize"},
	{permitKind, []string{"acquire", "java"}, "available"},
	{permitKind, []string{"acquire", "java"}, "list"},
	{permitKind, []string{"acquire", "java"}, "force"},
	{latchKind, nil, "start"},
	{latchKind, []string{"start"}, "count"},
	{latchKind, []string{"start"}, "read"},
	{latchKind, []string{"start"}, "reset"},
}

func TestEveryScriptOfRedissonsIsRepeated(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	rows := make(map[string]bool)
	for _, row := range repeats {
		rows[row.kind.steps(newFixture(t))[row.verb].script.Name] = true
	}
	for _, s := range all {
		if strings.HasPrefix(s.Name, "redisson/") {
			require.True(t, rows[s.Name], "%s has no row in repeats", s.Name)
		}
	}
}

// what befalls a part between a call and its repetition: it is lost, or Java comes as well.
var befalls = map[string]func(r *repeated, p part){
	"lost": func(r *repeated, p part) { r.loses(p) },
	"lost and Java came": func(r *repeated, p part) {
		r.loses(p)
		r.does("java")
	},
	// It ended: Java takes the permit out and counts it, and takes it.
	"taken by Java": func(r *repeated, p part) {
		r.loses(p)
		if p.remove == "ZREM" && r.kind == permitKind {
			r.server.MustDo(r, "INCRBY", r.key, 1)
			r.does("java")
		}
	},
}

// P1, P5, P8: a call that is repeated after any part of what it did is gone makes no second hold,
// loses no permit and makes none, and leaves what every other script reads.
func TestRepeatedSharedStepsAreSound(t *testing.T) {
	t.Parallel()
	for _, row := range repeats {
		name := fmt.Sprint(row.kind.steps(newFixture(t))[row.verb].script.Name, " behind ", row.before)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := startRepeated(t, row.kind, row.before)
			first.does(row.verb)
			cells, every := 0, redistest.Rounds(4, 1)
			for i, p := range first.parts() {
				for how, befall := range befalls {
					if cells++; cells%every != 0 {
						continue
					}
					if p.member == "mode" && how != "lost" {
						continue // Java takes a hash without a mode for a lock that is free
					}
					r := startRepeated(t, row.kind, row.before)
					r.does(row.verb)
					befall(r, r.parts()[i])
					requireRepeats(r, row.verb, how+": "+first.whole(p))
				}
			}
		})
	}
}

// requireRepeats takes a step again, and then every step of the kind; each must find what it can
// read.
func requireRepeats(r *repeated, verb, what string) {
	r.Helper()
	check := func(verb string) {
		r.Helper()
		before, known := r.total()
		r.kind.sound(r, verb, r.does(verb))
		if after, still := r.total(); known && still && verb != "resize" {
			require.Equal(r, before, after, "%s: %s: permits were lost or made", what, verb)
		}
	}
	r.Log(what)
	check(verb)
	check(verb)
	for _, other := range slices.Sorted(maps.Keys(r.kind.steps(r.fixture))) {
		check(other)
	}
}

// P9: a call that is repeated after the lock ended and something else took its name changes nothing
// of that.
func TestRepeatedSharedStepsLeaveOtherKeysAlone(t *testing.T) {
	t.Parallel()
	for _, row := range repeats {
		if row.kind == latchKind || row.kind == permitKind {
			continue // whose keys are text, too
		}
		t.Run(row.kind.steps(newFixture(t))[row.verb].script.Name, func(t *testing.T) {
			t.Parallel()
			r := startRepeated(t, row.kind, row.before)
			r.does(row.verb)
			r.server.MustDo(t, "SET", r.key, "3")
			unchanged := r.untouched()
			r.does(row.verb)
			unchanged()
		})
	}
}

// P4: a step that comes after its time, or asks for a lease that cannot be given, takes no lock.
func TestSharedStepsThatCannotBeDoneWriteNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, now string }{"Late": {later, digits(noon - 1)}, "NoLease": {minute, "no number"}} {
		for _, row := range repeats {
			if len(row.before) > 0 {
				continue
			}
			r := startRepeated(t, row.kind, nil)
			s := row.kind.steps(r.fixture)[row.verb]
			at := slices.Index(s.args, any(c.old))
			if at < 0 {
				continue
			}
			s.args[at] = c.now
			reply, err := r.tryKeys(s.script, s.keys, s.args...)
			if name == "Late" {
				require.NoError(t, err)
				require.Equal(t, []any{int64(-1), digits(noon)}, reply, s.script.Name)
				require.Empty(t, r.parts(), s.script.Name)
			} else {
				require.Error(t, err, s.script.Name)
			}
			require.Zero(t, r.server.MustDo(t, "EXISTS", r.key), s.script.Name)
		}
	}
}
