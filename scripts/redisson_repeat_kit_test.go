// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// repeated is one lock of one kind in Redisson's layout, with all steps that the scripts of the
// kind take.
type repeated struct {
	*fixture

	kind *sharedKind
}

// step is one call of a script: nothing in it is drawn anew, so that to take it twice is to send it
// twice.
type step struct {
	script *scripts.Script
	keys   []string
	args   []any
}

// sharedKind is a kind of lock that Java shares.
type sharedKind struct {
	// steps are the calls of a Go client, by the verb that a row names.
	steps func(f *fixture) map[string]step
	// java takes the lock as the Java client does, if it is to be had.
	java string
	// keys are the keys of java.
	keys func(f *fixture) []string
	// sound checks what holds of the keys at any time, and after a step that replied so.
	sound func(r *repeated, verb string, reply any)
}

// does takes a step, which may not fail.
func (r *repeated) does(verb string) any {
	r.Helper()
	if verb == "java" {
		keys := r.kind.keys(r.fixture)
		return r.server.MustDo(r, append([]any{"EVAL", r.kind.java, len(keys)}, texts(keys)...)...)
	}
	s, known := r.kind.steps(r.fixture)[verb]
	require.True(r, known, verb)
	reply, err := r.tryKeys(s.script, s.keys, s.args...)
	require.NoError(r, err, verb)
	return reply
}

func texts(list []string) []any {
	all := make([]any, len(list))
	for i, text := range list {
		all[i] = text
	}
	return all
}

// part is something that can be lost by itself: a key, or one field, member or element of it.
type part struct{ key, member, remove string }

// whole is the key of a part as the name of a test: without what is new in each place.
func (r *repeated) whole(p part) string {
	return strings.TrimPrefix(p.key, strings.TrimSuffix(r.key, "lock")) + " " + p.remove + " " + p.member
}

// parts are all that is there, in an order that is the same each time.
func (r *repeated) parts() (all []part) {
	r.Helper()
	pattern := strings.NewReplacer("[", "?", "]", "?").Replace(strings.TrimSuffix(r.key, "lock")) + "*"
	for _, key := range r.server.Keys(pattern) {
		all = append(all, part{key, "", "DEL"})
		list, remove := any(nil), ""
		switch r.server.MustDo(r, "TYPE", key) {
		case "hash":
			list, remove = r.server.MustDo(r, "HKEYS", key), "HDEL"
		case "list":
			list, remove = r.server.MustDo(r, "LRANGE", key, 0, -1), "LREM"
		case "zset":
			list, remove = r.server.MustDo(r, "ZRANGE", key, 0, -1), "ZREM"
		}
		members, _ := list.([]any)
		for _, member := range members {
			all = append(all, part{key, fmt.Sprint(member), remove})
		}
	}
	return all
}

func (r *repeated) loses(p part) {
	r.Helper()
	switch p.remove {
	case "DEL":
		r.server.MustDo(r, "DEL", p.key)
	case "LREM":
		r.server.MustDo(r, "LREM", p.key, 0, p.member)
	default:
		r.server.MustDo(r, p.remove, p.key, p.member)
	}
}

// number is what the key says, if it is there.
func (r *repeated) number() (free int, known bool) {
	r.Helper()
	text, known := r.server.MustDo(r, "GET", r.key).(string)
	if !known {
		return 0, false
	}
	free, err := strconv.Atoi(text)
	require.NoError(r, err)
	return free, true
}

// total is how many permits there are, if that is known.
func (r *repeated) total() (all int, known bool) {
	r.Helper()
	if r.kind != permitKind {
		return 0, false
	}
	free, known := r.number()
	out, _ := r.server.MustDo(r, "ZCARD", r.kind.keys(r.fixture)[1]).(int64)
	return free + int(out), known
}

// taken reports whether a step replied that the hold has the lock, if it is one that acquires.
func taken(verb string, reply any) bool {
	if !strings.HasPrefix(verb, "acquire") && verb != "split" {
		return false
	}
	list, isList := reply.([]any)
	return isList && list[0] == int64(1)
}

// alone are the keys of a lock that has one.
func alone(f *fixture) []string { return []string{f.key} }

// soundLock: one holder, with an end; the owner that was granted the lock is the holder.
func soundLock(r *repeated, verb string, reply any) {
	r.Helper()
	fields := r.fields()
	require.LessOrEqual(r, len(fields), 1, "one holder")
	if len(fields) == 1 {
		require.Positive(r, r.server.MustDo(r, "PTTL", r.key), "an end")
	}
	if taken(verb, reply) {
		require.Equal(r, "1", fields[gos])
	}
}

// soundValue: a value has an end; the owner that was granted the lock is the holder.
func soundValue(r *repeated, verb string, reply any) {
	r.Helper()
	value := r.server.MustDo(r, "GET", r.key)
	if value != nil {
		require.Positive(r, r.server.MustDo(r, "PTTL", r.key), "an end")
	}
	if taken(verb, reply) {
		require.Equal(r, natives, value)
	}
}

// soundQueue: as soundLock, and each waiter of ours once; a holder does not wait, and a waiter has
// its deadline.
func soundQueue(r *repeated, verb string, reply any) {
	r.Helper()
	soundLock(r, verb, reply)
	keys := javaQueue{r.fixture, wait}.keys()
	queue, _ := r.server.MustDo(r, "LRANGE", keys[1], 0, -1).([]any)
	states := make(map[any]int)
	for _, owner := range queue {
		states[owner]++
		require.True(r, states[owner] == 1 || owner == javas, "one ticket for each of ours; Java checks the deadlines alone")
	}
	waits := r.server.MustDo(r, "ZSCORE", keys[2], gos) != nil
	if verb == "acquire" {
		require.Equal(r, waits, states[gos] == 1, "a place with its deadline, or neither")
	}
	if _, holds := r.fields()[gos]; holds {
		require.False(r, waits, "a holder does not wait for its own lock")
	}
}

// soundRW: a mode, its holders and none of the other side, each reader with the key of its hold,
// and an end.
func soundRW(r *repeated, verb string, reply any) {
	r.Helper()
	fields := r.fields()
	mode, has := fields["mode"]
	if !has {
		return // a step refuses the hash, and its end is near
	}
	require.Positive(r, r.server.MustDo(r, "PTTL", r.key), "an end")
	writers := 0
	for field := range fields {
		if strings.HasSuffix(field, ":write") {
			writers++
		}
	}
	require.LessOrEqual(r, writers, 1)
	if writers == 1 {
		require.Equal(r, "write", mode)
		require.Len(r, fields, 2)
	}
	if taken(verb, reply) && mode == "read" {
		require.Equal(r, "1", fields[gos])
		require.Positive(r, r.server.MustDo(r, "PTTL", javaRW{r.fixture}.timeout(gos, 1)))
	}
	if taken(verb, reply) && mode == "write" {
		require.Equal(r, "1", fields[gos+":write"])
	}
}

// soundPermits: a session that was granted permits has all of them.
func soundPermits(r *repeated, verb string, reply any) {
	r.Helper()
	if !taken(verb, reply) {
		return
	}
	for i := range 3 {
		require.NotNil(r, r.server.MustDo(r, "ZSCORE", r.kind.keys(r.fixture)[1], permitID("go", i+1)))
	}
}

// soundLatch: a count above 0, or none.
func soundLatch(r *repeated, _ string, _ any) {
	r.Helper()
	if left, known := r.number(); known {
		require.Positive(r, left)
	}
}

// startRepeated returns a lock in the state before a step.
func startRepeated(tb testing.TB, kind *sharedKind, before []string) *repeated {
	tb.Helper()
	r := &repeated{newFixture(tb), kind}
	for _, verb := range before {
		r.does(verb)
	}
	return r
}
