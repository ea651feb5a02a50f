// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
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

// permitWalk is a random walk of clients that acquire permits of the semaphore "a", and what all of them
// must see.
type permitWalk struct {
	server *redistest.Server
	peers  []*peer
	sems   []*semaphore.Semaphore

	capacity, out int
	java          []string // ids, by commas, of what was taken at once
	leases        []leased
}

// leased is what Go took at once.
type leased struct {
	lease signalbox.Lease
	n     int
}

// can reports whether n permits are to be had, and takes note that they are taken then.
func (w *permitWalk) can(n int) bool {
	if w.capacity-w.out < n {
		return false
	}
	w.out += n
	return true
}

// step makes one client do something.
func (w *permitWalk) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	p, sem, n := w.peers[r.IntN(len(w.peers))], w.sems[r.IntN(len(w.sems))], 1+r.IntN(3)
	switch verb := r.IntN(18); {
	case verb < 5:
		ids := p.must(t, "a", "permit-try", "a", n, 0, time.Hour.Milliseconds())
		require.Equal(t, w.can(n), ids != "")
		if ids != "" {
			w.java = append(w.java, ids)
		}
	case verb < 10:
		lease, err := sem.TryAcquire(locktest.Context(t), n)
		switch {
		case w.can(n):
			require.NoError(t, err)
			w.leases = append(w.leases, leased{lease, n})
		case n > w.capacity:
			require.ErrorIs(t, err, signalbox.ErrCapacity)
		default:
			require.ErrorIs(t, err, signalbox.ErrHeld)
		}
	case verb < 13 && len(w.java) > 0:
		i := r.IntN(len(w.java))
		w.give(t, p, w.java[i])
		w.java = slices.Delete(w.java, i, i+1)
	case verb < 16 && len(w.leases) > 0:
		i := r.IntN(len(w.leases))
		require.NoError(t, w.leases[i].lease.Unlock())
		w.out -= w.leases[i].n
		w.leases = slices.Delete(w.leases, i, i+1)
	case verb == 16:
		w.capacity = 1 + r.IntN(8)
		p.must(t, "a", "permit-set", "a", w.capacity)
	case verb == 17:
		w.capacity = 1 + r.IntN(8)
		require.NoError(t, sem.SetCapacity(locktest.Context(t), w.capacity))
	}
}

// give gives permits of Java back: by any of its processes.
func (w *permitWalk) give(t *testing.T, p *peer, ids string) {
	t.Helper()
	n := strings.Count(ids, ",") + 1
	require.Equal(t, strconv.Itoa(n), p.must(t, "a", "permit-give-all", "a", ids))
	w.out -= n
}

// check fails the test if a client sees something else.
func (w *permitWalk) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	require.Equal(t, strconv.Itoa(w.capacity-w.out), w.server.MustDo(t, "GET", "a"))
	require.Len(t, permits(t, w.server, "a"), w.out)
	there := []string{"a"}
	if w.out > 0 {
		there = append(there, "{a}:timeout")
	}
	requireKeys(t, w.server, there...)
	p, sem := w.peers[r.IntN(len(w.peers))], w.sems[r.IntN(len(w.sems))]
	for verb, want := range map[string]int{"permit-available": w.capacity - w.out, "permit-acquired": w.out, "permit-capacity": w.capacity} {
		require.Equal(t, strconv.Itoa(want), p.must(t, "a", verb, "a"), verb)
	}
	free, err := sem.Available(locktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, max(w.capacity-w.out, 0), free)
	for _, each := range w.leases {
		require.NoError(t, each.lease.Err())
	}
}

// P1, P8, P9: two Java processes and two sessions in Go acquire and release permits, and set the capacity,
// in any order. A request is granted if and only if there are enough permits, the server has what Redisson
// would have there, and both sides see the same.
func TestBothSidesAgreeWhateverPermitsTheyTake(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		w := &permitWalk{server: server, capacity: 5}
		for range 2 {
			w.peers = append(w.peers, newPeer(t, release, server))
			w.sems = append(w.sems, semaphore.New(newSession(t, server), "a", 5))
		}
		require.Equal(t, "true", w.peers[0].must(t, "a", "permit-found", "a", 5))
		r := random(t)
		for range strides {
			w.step(t, r)
			w.check(t, r)
		}
		for _, ids := range w.java {
			w.give(t, w.peers[0], ids)
		}
		for _, each := range w.leases {
			require.NoError(t, each.lease.Unlock())
		}
		require.Equal(t, strconv.Itoa(w.capacity), server.MustDo(t, "GET", "a"))
		requireKeys(t, server, "a")
	})
}
