// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// strides is how many steps a random walk has.
const strides = 150

// random returns a source of numbers for a walk. A test that fails logs its seed.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // that a walk can be repeated
}

// walker takes the lock "a" and enters it again: a thread in Java, or a session in Go.
type walker interface {
	// try takes the lock, or enters it again, and reports whether it could.
	try(t *testing.T) bool
	// wait acquires the lock when it is free, and then sends itself on got.
	wait(got chan<- walker)
	// unlock gives an entry back.
	unlock(t *testing.T)
	// unlockLost releases what was removed by force.
	unlockLost(t *testing.T, entries int)
	// force removes the hold of the lock, and reports whether there was one.
	force(t *testing.T) bool
	// sees fails the test unless its side sees the lock held by has with so many entries; no holder if has
	// is nil.
	sees(t *testing.T, has walker, entries int)
	// field fails the test where these are not the fields of the lock that it has, entered that often.
	field(t *testing.T, fields map[string]string, entries int)
}

// javaWalker is a thread of a Java process.
type javaWalker struct {
	javaSide

	owner string
}

func newJavaWalker(t *testing.T, p *peer, thread string) *javaWalker {
	t.Helper()
	return &javaWalker{javaSide{peer: p, thread: thread}, p.owner(t, thread)}
}

func (j *javaWalker) try(t *testing.T) bool {
	t.Helper()
	return j.peer.must(t, j.thread, "try", "a", 0, time.Hour.Milliseconds()) == "true"
}

func (j *javaWalker) wait(got chan<- walker) {
	taken := j.take("a")
	go func() {
		if <-taken == nil {
			got <- j
		}
	}()
}

func (j *javaWalker) unlock(t *testing.T) {
	t.Helper()
	j.release(t, "a")
}

func (j *javaWalker) unlockLost(t *testing.T, _ int) {
	t.Helper()
	require.Contains(t, refused(t, j.peer.send(j.thread, "unlock", "a")), "IllegalMonitorStateException")
}

func (j *javaWalker) force(t *testing.T) bool {
	t.Helper()
	return j.peer.must(t, j.thread, "force", "a") == "true"
}

func (j *javaWalker) sees(t *testing.T, has walker, entries int) {
	t.Helper()
	own := 0
	if has == walker(j) {
		own = entries
	}
	require.Equal(t, strconv.FormatBool(has != nil), j.peer.must(t, j.thread, "locked", "a"))
	require.Equal(t, strconv.FormatBool(own > 0), j.peer.must(t, j.thread, "mine", "a"))
	require.Equal(t, strconv.Itoa(own), j.peer.must(t, j.thread, "count", "a"))
	left, err := strconv.ParseInt(j.peer.must(t, j.thread, "ttl", "a"), 10, 64)
	require.NoError(t, err)
	require.Equal(t, has != nil, left > 0)
}

func (j *javaWalker) field(t *testing.T, fields map[string]string, entries int) {
	t.Helper()
	require.Equal(t, map[string]string{j.owner: strconv.Itoa(entries)}, fields)
}

// goWalker is a session.
type goWalker struct {
	lock   *reentrant.Lock
	leases []signalbox.Lease
}

func newGoWalker(t *testing.T, to clients) *goWalker {
	t.Helper()
	return &goWalker{lock: reentrant.New(newSession(t, to), "a")}
}

func (g *goWalker) try(t *testing.T) bool {
	t.Helper()
	ctx := locktest.Context(t)
	if len(g.leases) > 0 {
		ctx = g.leases[0].Enter(ctx)
	}
	lease, err := g.lock.TryLock(ctx)
	if err != nil {
		require.ErrorIs(t, err, signalbox.ErrHeld)
		return false
	}
	g.leases = append(g.leases, lease)
	return true
}

func (g *goWalker) wait(got chan<- walker) {
	go func() {
		if lease, err := g.lock.Lock(context.Background()); err == nil {
			g.leases = append(g.leases, lease) // read after got was heard
			got <- g
		}
	}()
}

func (g *goWalker) unlock(t *testing.T) {
	t.Helper()
	require.NoError(t, g.leases[0].Unlock())
	g.leases = g.leases[1:]
}

func (g *goWalker) unlockLost(t *testing.T, entries int) {
	t.Helper()
	require.Len(t, g.leases, entries)
	for _, lease := range slices.Backward(g.leases) {
		if err := lease.Unlock(); lease == g.leases[0] { // the last one finds out at the latest
			require.ErrorIs(t, err, signalbox.ErrLost)
		}
	}
	g.leases = nil
}

func (g *goWalker) force(t *testing.T) bool {
	t.Helper()
	err := g.lock.ForceUnlock(locktest.Context(t))
	if err != nil {
		require.ErrorIs(t, err, signalbox.ErrNotHeld)
	}
	return err == nil
}

func (g *goWalker) sees(t *testing.T, has walker, entries int) {
	t.Helper()
	h, err := g.lock.Holder(locktest.Context(t))
	if has == nil {
		require.ErrorIs(t, err, signalbox.ErrNotHeld)
		return
	}
	require.NoError(t, err)
	if j, isJava := has.(*javaWalker); isJava {
		require.Equal(t, j.owner, h.Label)
	}
	require.Len(t, g.leases, map[bool]int{true: entries}[has == walker(g)])
}

func (*goWalker) field(t *testing.T, fields map[string]string, _ int) {
	t.Helper()
	require.Len(t, fields, 1)
	for _, entries := range fields {
		require.Equal(t, "1", entries, "Go counts its entries itself")
	}
}

// walk is the state of the lock that all must see.
type walk struct {
	server  *redistest.Server
	has     walker // nil if the lock is free
	entries int
	waiting int
	got     chan walker
	idle    []walker // the walkers that do not wait
}

// freed frees the lock: then one of the waiters has it.
func (w *walk) freed(t *testing.T) {
	t.Helper()
	w.has, w.entries = nil, 0
	if w.waiting == 0 {
		return
	}
	select {
	case w.has = <-w.got:
	case <-locktest.Context(t).Done():
		require.FailNow(t, "no waiter has the lock")
	}
	w.entries = 1
	w.waiting--
	w.idle = append(w.idle, w.has)
}

// step lets one of those that do not wait do something.
func (w *walk) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	x := w.idle[r.IntN(len(w.idle))]
	switch verb := r.IntN(16); {
	case verb < 3:
		can := w.has == nil || w.has == x
		require.Equal(t, can, x.try(t))
		if can {
			w.has = x
			w.entries++
		}
	case verb < 10 && w.has != nil && w.has != x:
		w.idle = slices.DeleteFunc(w.idle, func(other walker) bool { return other == x })
		w.waiting++
		x.wait(w.got)
	case verb < 15 && w.has != nil:
		w.has.unlock(t)
		if w.entries--; w.entries == 0 {
			w.freed(t)
		}
	case verb == 15:
		had, entries := w.has, w.entries
		require.Equal(t, had != nil, x.force(t))
		if had != nil {
			w.freed(t)
			had.unlockLost(t, entries)
		}
	}
}

// check fails the test if a walker sees another lock than there is.
func (w *walk) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	require.Empty(t, w.got, "two have it")
	fields := hash(t, w.server, "a")
	if w.has == nil {
		require.Empty(t, fields)
	} else {
		w.has.field(t, fields, w.entries)
	}
	w.idle[r.IntN(len(w.idle))].sees(t, w.has, w.entries)
}

// P1, P6, P8: threads of two Java processes and sessions in Go try, wait, enter again, release and force,
// in any order. One has the lock at a time, as often as it entered, and both sides see the same.
func TestBothSidesAgreeWhateverTheyDo(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, q := newPeer(t, release, server), newPeer(t, release, server)
		w := &walk{server: server, got: make(chan walker, 10), idle: []walker{
			newJavaWalker(t, p, "a"), newJavaWalker(t, p, "b"), newJavaWalker(t, q, "a"), newGoWalker(t, server), newGoWalker(t, server),
		}}
		r := random(t)
		for range strides {
			w.step(t, r)
			w.check(t, r)
		}
		for w.has != nil {
			w.has.unlock(t)
			if w.entries--; w.entries == 0 {
				w.freed(t)
			}
		}
		awaitNothing(t, server)
	})
}
