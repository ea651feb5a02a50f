// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// The halves of a read-write lock, as the Java side calls them.
const (
	reading = "read"
	writing = "write"
)

// javaHalf is a thread of a Java process that reads or writes.
type javaHalf struct {
	peer   *peer
	thread string
	half   string
}

func (j javaHalf) take(name string) <-chan error {
	return j.peer.later(j.peer.send(j.thread, "rw.lock", name, j.half, time.Hour.Milliseconds()))
}

func (j javaHalf) release(t *testing.T, name string) {
	t.Helper()
	j.peer.must(t, j.thread, "rw.unlock", name, j.half)
}

// goHalf is a session that reads or writes.
type goHalf struct {
	*goSide

	half string
}

func newGoHalf(t *testing.T, to clients, half string) goHalf {
	t.Helper()
	return goHalf{newGoSide(t, to), half}
}

func (g goHalf) lock(name string) *rwlock.Lock { return rwlock.New(g.session, name) }

func (g goHalf) take(name string) <-chan error {
	lock := g.lock(name)
	if g.half == reading {
		return g.by(name, lock.RLock)
	}
	return g.by(name, lock.Lock)
}

// halvesOf returns a reader and a writer of each side: a thread in Java, a session in Go.
func halvesOf(t *testing.T, p *peer, thread string, to clients) map[string]side {
	t.Helper()
	return map[string]side{
		"java reader": javaHalf{p, thread + "r", reading}, "java writer": javaHalf{p, thread + "w", writing},
		"go reader": newGoHalf(t, to, reading), "go writer": newGoHalf(t, to, writing),
	}
}

// tookByMessage waits until a lock is acquired, and reports whether that was at once. A Java client misses a `1`
// that arrives between its second try and its sleep, so notify sends it again, once a second.
func tookByMessage(t *testing.T, taken <-chan error, notify func()) (atOnce bool) {
	t.Helper()
	again, late := time.NewTicker(time.Second), time.NewTimer(redistest.Patience)
	defer again.Stop()
	defer late.Stop()
	for atOnce = true; ; atOnce = false {
		select {
		case err := <-taken:
			require.NoError(t, err)
			return atOnce
		case <-again.C:
			notify()
		case <-late.C:
			require.FailNow(t, "the lock is not taken")
		}
	}
}

// notifiesRW returns a function that notifies the waiters of a read-write lock.
func notifiesRW(t *testing.T, server *redistest.Server, name string) func() {
	t.Helper()
	return func() { server.MustDo(t, "PUBLISH", rwChannel(name), "1") }
}
