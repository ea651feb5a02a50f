// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// entrant takes one half or the other of the lock "a": a thread in Java, which enters either again, or a session in Go, which has one
// hold at a time.
type entrant struct {
	peer   *peer // nil in Go
	thread string
	owner  string // the owner of its hold; in Go the hold's id

	lock  *rwlock.Lock
	lease signalbox.Lease

	entries map[string]int // by half, as the model has it
}

func (e *entrant) isJava() bool { return e.peer != nil }

// has reports whether it has either half.
func (e *entrant) has() bool { return e.entries[reading]+e.entries[writing] > 0 }

// try takes a half, and reports whether it could.
func (e *entrant) try(t *testing.T, half string) bool {
	t.Helper()
	if e.isJava() {
		return e.peer.must(t, e.thread, "rw.try", "a", half, 0, time.Hour.Milliseconds()) == "true"
	}
	take := map[string]func(context.Context) (signalbox.Lease, error){reading: e.lock.TryRLock, writing: e.lock.TryLock}[half]
	lease, err := take(locktest.Context(t))
	if err != nil {
		require.ErrorIs(t, err, signalbox.ErrHeld)
		return false
	}
	e.lease = lease
	return true
}

// unlock gives an entry of a half back.
func (e *entrant) unlock(t *testing.T, half string) {
	t.Helper()
	if e.isJava() {
		e.peer.must(t, e.thread, "rw.unlock", "a", half)
		return
	}
	require.NoError(t, e.lease.Unlock())
}

// lost releases what was removed by force.
func (e *entrant) lost(t *testing.T) {
	t.Helper()
	for half, n := range e.entries {
		if n > 0 && e.isJava() {
			require.Contains(t, refused(t, e.peer.send(e.thread, "rw.unlock", "a", half)), "IllegalMonitorStateException")
		}
	}
	if e.has() && !e.isJava() {
		require.ErrorIs(t, e.lease.Unlock(), signalbox.ErrLost)
	}
	clear(e.entries)
}

// yardWalk is a random walk of entrants.
type yardWalk struct {
	server *redistest.Server
	all    []*entrant
}

// writer returns who writes, or nil.
func (y *yardWalk) writer() *entrant {
	for _, e := range y.all {
		if e.entries[writing] > 0 {
			return e
		}
	}
	return nil
}

// taken reports whether either half is held.
func (y *yardWalk) taken() bool {
	for _, e := range y.all {
		if e.has() {
			return true
		}
	}
	return false
}

// may reports whether an entrant may acquire a half by the rules of Java: readers beside readers, a writer
// alone, and the writer also what it likes.
func (y *yardWalk) may(e *entrant, half string) bool {
	if half == reading {
		return y.writer() == nil || y.writer() == e
	}
	return !y.taken() || y.writer() == e
}

// step makes one entrant do something.
func (y *yardWalk) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	e, half := y.all[r.IntN(len(y.all))], []string{reading, reading, writing}[r.IntN(3)]
	switch verb := r.IntN(20); {
	case verb < 8 && (e.isJava() || !e.has()):
		may := y.may(e, half)
		require.Equal(t, may, e.try(t, half), half)
		if may {
			e.entries[half]++
		}
	case verb < 17 && e.entries[half] > 0:
		e.unlock(t, half)
		e.entries[half]--
	case verb < 19 && !e.isJava() && e.entries[writing] > 0:
		require.NoError(t, e.lock.Downgrade(locktest.Context(t), e.lease))
		e.entries = map[string]int{reading: 1}
	case verb == 19 && !e.isJava():
		if !y.taken() {
			require.ErrorIs(t, e.lock.ForceUnlock(locktest.Context(t)), signalbox.ErrNotHeld)
			return
		}
		require.NoError(t, e.lock.ForceUnlock(locktest.Context(t)))
		for _, each := range y.all {
			each.lost(t)
		}
	}
}

// check fails the test if the server has other fields and keys than Redisson would have, or if an entrant
// sees another lock.
func (y *yardWalk) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	fields, there := hash(t, y.server, "a"), []string(nil)
	var inGo, found int
	want := make(map[string]string)
	if y.taken() {
		want["mode"], there = map[bool]string{true: reading, false: writing}[y.writer() == nil], []string{"a"}
	}
	for _, e := range y.all {
		if !e.isJava() && e.has() {
			inGo++
			continue
		}
		for n := 1; n <= e.entries[reading]; n++ {
			want[e.owner] = strconv.Itoa(n)
			there = append(there, timeoutOf("a", e.owner, strconv.Itoa(n)))
		}
		if n := e.entries[writing]; n > 0 {
			want[e.owner+":write"] = strconv.Itoa(n)
		}
	}
	for field, value := range fields {
		if _, known := want[field]; !known { // of a session, which Java knows by nothing but its shape
			found++
			require.Regexp(t, `^[0-9a-f-]{36}:[0-9]{19}(:write)?$`, field)
			want[field] = "1"
			if y.writer() == nil {
				there = append(there, timeoutOf("a", field, "1"))
			}
			require.Equal(t, "1", value)
		}
	}
	require.Equal(t, inGo, found)
	require.Equal(t, want, fields)
	requireKeys(t, y.server, there...)
	y.seen(t, y.all[r.IntN(len(y.all))])
}

// seen fails the test if an entrant sees another lock than there is.
func (y *yardWalk) seen(t *testing.T, e *entrant) {
	t.Helper()
	if !e.isJava() {
		isLocked, err := e.lock.IsLocked(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, y.taken(), isLocked)
		if e.has() {
			require.NoError(t, e.lease.Err())
		}
		return
	}
	require.Equal(t, strconv.FormatBool(y.writer() != nil), e.peer.must(t, e.thread, "rw.locked", "a", writing))
	if y.writer() == nil {
		require.Equal(t, strconv.FormatBool(y.taken()), e.peer.must(t, e.thread, "rw.locked", "a", reading))
	}
	for _, half := range []string{reading, writing} {
		require.Equal(t, strconv.Itoa(e.entries[half]), e.peer.must(t, e.thread, "rw.count", "a", half), half)
	}
}

// P1, P8, P9: threads of two Java processes and sessions in Go read, write, release, downgrade and force,
// in any order. Exactly those get the lock that may, the server has what Redisson would have there, and
// both sides see the same.
func TestBothSidesAgreeWhateverTheyReadAndWrite(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		y := &yardWalk{server: server}
		p, q := newPeer(t, release, server), newPeer(t, release, server)
		for i, peer := range []*peer{p, p, q} {
			thread := fmt.Sprint(i)
			y.all = append(y.all, &entrant{peer: peer, thread: thread, owner: peer.owner(t, thread), entries: make(map[string]int)})
		}
		for range 2 {
			y.all = append(y.all, &entrant{lock: rwlock.New(newSession(t, server), "a"), entries: make(map[string]int)})
		}
		r := random(t)
		for range strides {
			y.step(t, r)
			y.check(t, r)
		}
		for _, e := range y.all {
			for half, n := range e.entries {
				for range n {
					e.unlock(t, half)
				}
			}
		}
		requireKeys(t, server)
	})
}
