// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// failoverLease is that of leases which are to outlive a failover on a busy machine.
const failoverLease = 10 * time.Second

// wait is how long a Lock waits for a lock that another client is to release: mustGet says how long that may
// take.
const wait = 5 * time.Minute

// moment is how long a Lock waits that is to see a refusal.
const moment = 3 * time.Second

// uncompressed makes DUMP return ids unchanged; see failoverFixture.knows.
func uncompressed() redistest.Option { return redistest.WithArgs("--rdbcompression", "no") }

// failovers are the topologies that lose servers at a time. Too many would have failovers of their own.
var failovers = make(chan struct{}, 6)

func takeTurn(t *testing.T) {
	t.Helper()
	failovers <- struct{}{}
	t.Cleanup(func() { <-failovers })
}

// cluster runs a cluster until the test ends, or skips the test under -short.
func cluster(t *testing.T, opts ...redistest.Option) *redistest.Cluster {
	t.Helper()
	redistest.Slow(t, "the nodes of a cluster agree on a failover, or on a slot that moves, in seconds")
	takeTurn(t)
	return redistest.StartCluster(t, append(opts, uncompressed())...)
}

// sentinels runs a primary, its replica and sentinels until the test ends, or skips the test under -short.
func sentinels(t *testing.T, opts ...redistest.Option) *redistest.Sentinel {
	t.Helper()
	redistest.Slow(t, "sentinels replace a primary that has been silent for a second")
	takeTurn(t)
	return redistest.StartSentinel(t, append(opts, uncompressed())...)
}

// tunedTopology gives clients of a topology what Tune sets, and nothing else.
type tunedTopology struct{ redistest.Topology }

// Client implements what locktest.Session asks for.
func (tt tunedTopology) Client(tb testing.TB, _ func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return tt.Topology.Client(tb, func(o *rueidis.ClientOption) {
		o.Sentinel.TopologyRefreshInterval = 0
		signalbox.Tune(o)
	})
}

// failoverFixture is one primitive, and one of its locks, while servers fail.
type failoverFixture struct {
	*testing.T

	topology   redistest.Topology
	kind       locktest.Primitive
	name       string
	holders    *holderLog
	strict     bool              // nothing can be lost
	stopped    *redistest.Server // the server that is frozen, and must not be asked; nil if none is
	sessions   []*signalbox.Session
	subscriber *signalbox.Session // the session that listened through the fault, or nil
}

// failoverFixtures returns one for every primitive. Their names are those among many that good likes.
func failoverFixtures(t *testing.T, top redistest.Topology, good func(key string) bool) []*failoverFixture {
	t.Helper()
	var all []*failoverFixture
	for _, kind := range locktest.Primitives() {
		f := &failoverFixture{T: t, topology: top, kind: kind, holders: newHolderLog()}
		for n := 0; f.name == "" || !good(f.key()); n++ {
			f.name = fmt.Sprint(t.Name(), " ", kind.Name, " ", n)
		}
		all = append(all, f)
	}
	return all
}

// anyKey likes every key.
func anyKey(string) bool { return true }

// rename gives the fixture a lock of another name that good likes.
func (f *failoverFixture) rename(name string, good func(key string) bool) {
	base := f.name
	for n := 0; f.name == base || !good(f.key()); n++ {
		f.name = fmt.Sprint(base, " ", name, " ", n)
	}
}

// key returns the key that names the holder of the fixture's lock.
func (f *failoverFixture) key() string { return f.kind.Key(f.name) }

// session returns a session with a client of its own, as another process would have it.
func (f *failoverFixture) session() *signalbox.Session {
	f.Helper()
	s := locktest.Session(f.T, tunedTopology{f.topology})
	f.sessions = append(f.sessions, s)
	return s
}

// lock returns the fixture's lock, as a session sees it.
func (f *failoverFixture) lock(s *signalbox.Session, options ...signalbox.LockOption) locktest.Lock {
	return f.kind.New(s, f.name, options...)
}

// mustLock locks, and fails the test if that does not succeed.
func (f *failoverFixture) mustLock(l locktest.Lock) signalbox.Lease {
	f.Helper()
	before := f.holders.last()
	lease, err := l.Lock(locktest.Context(f))
	require.NoError(f, err, f.kind.Name)
	f.holders.enter(lease, before)
	return lease
}

// mustUnlock gives a lease back that nothing was to take away.
func (f *failoverFixture) mustUnlock(lease signalbox.Lease) {
	f.Helper()
	f.holders.leave(lease)
	f.mustRelease(lease)
}

// mustRelease unlocks a lease, and fails the test if the lease has ended. An Unlock without a reply within
// its second continues in the background, and a waiter, or mustRest, finds out whether it succeeded.
func (f *failoverFixture) mustRelease(lease signalbox.Lease) {
	f.Helper()
	require.NoError(f, release(lease), f.kind.Name)
}

// release unlocks a lease that nothing was to end. Only a machine that is suspended past its deadline may have ended it: a hold
// that was waited for has three seconds until its first renewal.
func release(lease signalbox.Lease) error {
	deadline := lease.Deadline()
	err := lease.Unlock()
	if errors.Is(err, signalbox.ErrLost) && !time.Now().Before(deadline) {
		return nil
	}
	return locktest.IgnoreUnconfirmed(err)
}

// pass waits for the lock and gives it back at once.
func (f *failoverFixture) pass(ctx context.Context, l locktest.Lock) error {
	before := f.holders.last()
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	f.holders.enter(lease, before)
	f.holders.leave(lease)
	return release(lease)
}

// alive returns the servers that have data and reply.
func (f *failoverFixture) alive() (alive []*redistest.Server) {
	for _, s := range f.topology.Servers() {
		if s == f.stopped {
			continue
		}
		if role, err := s.Do("ROLE"); err == nil {
			if list, ok := role.([]any); ok && list[0] != "sentinel" {
				alive = append(alive, s)
			}
		}
	}
	return alive
}

// pattern matches the keys and channels of the fixture's lock.
func (f *failoverFixture) pattern() string {
	base := strings.TrimSuffix(locktest.Key(f.name), "lock")
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(base) + "*"
}

// knows reports whether a session is in a key of the lock, on any server that replies.
func (f *failoverFixture) knows(s *signalbox.Session) bool {
	id := (*session.Handle)(s).Session().ID()
	for _, server := range f.alive() {
		keys, _ := server.Do("KEYS", f.pattern())
		list, _ := keys.([]any)
		for _, key := range list {
			if dump, err := server.Do("DUMP", key); err == nil && strings.Contains(fmt.Sprint(dump), id) {
				return true
			}
		}
	}
	return false
}

// held reports whether a server says that the lock is held: by a value, or by a member with an end for each
// hold.
func (f *failoverFixture) held(s *redistest.Server) bool {
	value, err := s.Do("GET", f.key())
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		holds, err := s.Do("ZCOUNT", f.key(), fmt.Sprintf("(%d", time.Now().UnixMicro()), "+inf")
		return err == nil && holds != int64(0)
	}
	text, _ := value.(string)
	return err == nil && len(text) >= 61 && text[3] != '-' && text[20:61] != strings.Repeat("-", 41) // ids may begin with one
}

// immortal returns the keys of the lock that have no end, on any server that replies.
func (f *failoverFixture) immortal() (left []string) {
	for _, server := range f.alive() {
		keys, _ := server.Do("KEYS", f.pattern())
		list, _ := keys.([]any)
		for _, key := range list {
			if ms, err := server.Do("PTTL", key); err == nil && ms == int64(-1) {
				left = append(left, fmt.Sprint(server.Addr(), " ", key))
			}
		}
	}
	return left
}

// listeners returns the channels of the lock that have a listener, by server.
func (f *failoverFixture) listeners() (all []string) {
	for _, server := range f.alive() {
		all = append(all, f.listenersAt(server)...)
	}
	return all
}

// listenersAt returns the channels of the lock that have a listener at a server.
func (f *failoverFixture) listenersAt(server *redistest.Server) (all []string) {
	for _, command := range []string{"CHANNELS", "SHARDCHANNELS"} {
		for _, pattern := range []string{f.pattern(), proto.DefaultPrefix + "grants:*"} {
			reply, _ := server.Do("PUBSUB", command, pattern)
			list, _ := reply.([]any)
			for _, channel := range list {
				all = append(all, fmt.Sprint(server.Addr(), " ", channel))
			}
		}
	}
	return all
}

// mustRest requires that everything is released and given up in the end: by the sessions and on the servers.
// P4, P7.
func (f *failoverFixture) mustRest() {
	f.Helper()
	for i, s := range f.sessions {
		redistest.Await(f, fmt.Sprint(f.kind.Name, ": rest in session ", i), func() bool {
			return locktest.Undoing(s) == 0 && locktest.Channels(s) == 0
		})
	}
	redistest.Await(f, f.kind.Name+": a free lock", func() bool {
		for _, server := range f.alive() {
			if line, err := server.Do("EXISTS", f.kind.Queue(f.name)); err == nil && line != int64(0) {
				return false
			}
			if f.held(server) {
				return false
			}
		}
		return true
	})
	redistest.Await(f, f.kind.Name+": channels without subscribers", func() bool { return len(f.listeners()) == 0 })
	require.Empty(f, f.immortal())
}

// mustAllRest is mustRest of several.
func mustAllRest(all []*failoverFixture) {
	for _, f := range all {
		f.mustRest()
	}
}

// mustReceive requires that waiters are woken by messages: a poll wakes them as well, but only after most of a second. A stall of
// the machine makes a round slow, and messages that are lost make most of them slow. Best soon after others waited: a session that
// listened through a fault is asked to wait while its channel lingers, and does not subscribe anew. P6.
func (f *failoverFixture) mustReceive() {
	f.Helper()
	const rounds = 8 // that are quick, before as many are slow
	mine, theirs := f.session(), f.subscriber
	if theirs == nil {
		theirs = f.session()
	}
	ctx := ended(f.T, 2*rounds*redistest.Patience)
	for quick, slow := 0, 0; quick < rounds; {
		held := f.mustLock(f.lock(mine))
		woken := make(chan error, 1)
		go func() { woken <- f.pass(ctx, f.lock(theirs)) }()
		redistest.Await(f, f.kind.Name+": a waiter that the server knows of", func() bool { return f.knows(theirs) })
		released := time.Now()
		f.holders.leave(held)
		require.NoError(f, release(held), f.kind.Name)
		require.NoError(f, <-woken, "%s: after %v", f.kind.Name, time.Since(released))
		if time.Since(released) < time.Second/2 {
			quick++
		} else if slow++; slow == rounds {
			require.FailNow(f, "waiters are not woken by messages", f.kind.Name)
		}
	}
}

// ended returns a context that ends after d.
func ended(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// holderLog is what every holder of a lock writes down while it has it.
type holderLog struct {
	mu struct {
		sync.Mutex
		inside   map[uint64]signalbox.Lease // the leases inside, by token
		last     uint64                     // the greatest token of all
		grants   int
		overlaps []string
		falls    []string
		faults   []string
	}
}

func newHolderLog() *holderLog {
	h := &holderLog{}
	h.mu.inside = make(map[uint64]signalbox.Lease)
	return h
}

// last returns the greatest token of all that have entered. A caller that starts to ask for the lock now gets
// a greater one.
func (h *holderLog) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.last
}

// enter records the beginning of a lease that was requested when the greatest token was before. Another lease that is still
// trusted overlaps with it. If two servers grant, or a grant can be lost, the earlier holder may call enter after the later
// one: then the order of the calls is that of the tokens only if one lease was requested after enter for the other.
func (h *holderLog) enter(lease signalbox.Lease, before uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token, alone := lease.Token(), true
	var overlaps []string
	for other, l := range h.mu.inside {
		if l.Err() == nil {
			alone = false
			overlaps = append(overlaps, fmt.Sprintf("%d while %d", token, other))
		}
	}
	// A lease that is over before its holder comes here overlaps with no other, and may come behind the next.
	late := lease.Err() != nil
	if !late {
		h.mu.overlaps = append(h.mu.overlaps, overlaps...)
	}
	switch {
	case token == h.mu.last, token <= before:
		h.mu.faults = append(h.mu.faults, fmt.Sprintf("token %d, asked for after %d had come", token, before))
	case alone && !late && token < h.mu.last:
		h.mu.falls = append(h.mu.falls, fmt.Sprintf("token %d after %d", token, h.mu.last))
	}
	h.mu.last = max(h.mu.last, token)
	h.mu.inside[token] = lease
	h.mu.grants++
}

// leave takes note that its holder works under a lease no more.
func (h *holderLog) leave(lease signalbox.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.inside, lease.Token())
}

// violations takes note of what must not be.
func (h *holderLog) violations(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.faults = append(h.mu.faults, fmt.Sprintf(format, args...))
}

// mustBeTrue requires that no two leases overlapped and that tokens grew.
func (h *holderLog) mustBeTrue(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.mu.overlaps, "two at once")
	require.Empty(t, h.mu.falls)
	require.Empty(t, h.mu.faults)
}

// len returns how many grants there were.
func (h *holderLog) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.grants
}

// follow reports what happens to a lease of life after a fault that has come: nothing if a renewal that is sent from
// now on has a reply, or the end. Before the fault a renewal may have the reply of the server that is lost.
func follow(lease signalbox.Lease, life time.Duration) <-chan error {
	from := time.Now()
	results := make(chan error, 1)
	go func() {
		// A renewal gives life from its sending, less what is allowed for clocks.
		first := from.Add(life - timers.Allowance(life))
		var lost error
		if !redistest.PollUntil(life+redistest.Patience, func() bool {
			lost = lease.Err()
			return lost != nil || lease.Deadline().After(first)
		}) {
			lost = errors.New("neither renewed nor lost")
		}
		results <- lost
	}()
	return results
}

// followAll is follow for many.
func followAll(leases []signalbox.Lease, life time.Duration) (results []<-chan error) {
	for _, lease := range leases {
		results = append(results, follow(lease, life))
	}
	return results
}

// mustEnd gives a lease back after a failover, if that did not end it. In time, both are right, and so is an end after the first
// renewal, on a machine that is suspended for as long as a lease.
func (f *failoverFixture) mustEnd(lease signalbox.Lease, lost error, now *redistest.Server) {
	f.Helper()
	defer f.holders.leave(lease)
	if lost == nil && !f.held(now) {
		lost = lease.Err()
		require.Error(f, lost, "%s: the lease is live without a hold", f.kind.Name)
	}
	if lost != nil {
		require.ErrorIs(f, lost, signalbox.ErrLost)
		return
	}
	_, err := f.lock(locktest.SteadySession(f.T, f.topology)).TryLock(locktest.Context(f)) // which no busy machine keeps from the server
	require.ErrorIs(f, err, signalbox.ErrHeld, f.kind.Name)
	f.mustRelease(lease)
}

// lockCall is one Lock call.
type lockCall struct {
	fixture *failoverFixture
	done    chan struct{}
	over    chan error // the error of handOff

	// Written before done is closed.
	lease signalbox.Lease
	err   error
	at    time.Time
}

// wait begins to wait for the lock, in a session of its own, and returns when the server knows of it.
func (f *failoverFixture) wait(ctx context.Context) *lockCall {
	f.Helper()
	s := f.session()
	f.subscriber = s
	l := &lockCall{fixture: f, done: make(chan struct{}), over: make(chan error, 1)}
	go func() {
		defer close(l.done)
		before := f.holders.last()
		l.lease, l.err = f.lock(s, signalbox.WithRenewedLease(failoverLease)).Lock(ctx)
		l.at = time.Now()
		if l.err == nil {
			f.holders.enter(l.lease, before)
		}
	}()
	redistest.Await(f, f.kind.Name+": a waiter", func() bool {
		return locktest.Channels(s) > 0 && (!f.kind.Ordered() || f.knows(s))
	})
	return l
}

// mustGet waits until the waiter has the lock.
func (l *lockCall) mustGet() {
	l.fixture.Helper()
	redistest.ReceiveFor(l.fixture, 2*redistest.Patience, l.fixture.kind.Name+": a grant", l.done)
	require.NoError(l.fixture, l.err, l.fixture.kind.Name)
}

// handOff releases the lock, and returns when the waiter has it.
func (l *lockCall) handOff() {
	go func() {
		<-l.done
		if l.err != nil {
			l.over <- l.err
			return
		}
		l.fixture.holders.leave(l.lease)
		err := locktest.IgnoreUnconfirmed(l.lease.Unlock())
		if errors.Is(err, signalbox.ErrLost) {
			err = nil // a grant lasts for three seconds, which a busy machine lets pass; the log compares
		}
		l.over <- err
	}()
}

// mustHandOn waits until handOff has done so.
func (l *lockCall) mustHandOn() {
	l.fixture.Helper()
	l.mustGet()
	require.NoError(l.fixture, <-l.over, l.fixture.kind.Name)
}

// turnLife is that of the leases of a crowd. If a failover loses a release, the lock is unavailable for as
// long.
const turnLife = 3 * time.Second

// workload is goroutines that take the lock in turn, for some milliseconds each.
type workload struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// load starts two sessions whose goroutines take turns and hand the lock over. If two servers may grant at
// one time, each turn is requested from the server: a hold that is handed over has tokens from before the
// other server's grants.
func (f *failoverFixture) load() *workload {
	f.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &workload{stop: stop}
	sessions, goroutines := 2, 2
	if !f.strict {
		sessions, goroutines = 4, 1
	}
	for range sessions {
		s := f.session()
		f.subscriber = s
		for range goroutines {
			w.running.Go(func() {
				for ctx.Err() == nil {
					f.turn(ctx, f.lock(s, signalbox.WithRenewedLease(turnLife)))
				}
			})
		}
	}
	f.Cleanup(w.end)
	redistest.Await(f, f.kind.Name+": turns", func() bool { return f.holders.len() > 10 })
	return w
}

// end waits until the last turn is over.
func (w *workload) end() {
	w.stop()
	w.running.Wait()
}

// turn is one of them.
func (f *failoverFixture) turn(ctx context.Context, l locktest.Lock) {
	before := f.holders.last()
	lease, err := l.Lock(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.holders.violations("Lock gave up: %v", err)
		}
		return
	}
	f.holders.enter(lease, before)
	moment := time.NewTimer(3 * time.Millisecond)
	select {
	case <-moment.C:
	case <-lease.Done():
		moment.Stop()
	}
	f.holders.leave(lease)
	deadline := lease.Deadline()
	err = lease.Unlock()
	lost := errors.Is(err, signalbox.ErrLost)
	early := time.Now().Before(deadline) // after that a lease is over, on a machine that was suspended for long
	if lost && f.strict && early || err != nil && !lost && !errors.Is(err, signalbox.ErrUnconfirmed) {
		f.holders.violations("Unlock failed: %v", err)
	}
}

// awaitTurns waits until many turns were taken after all that were taken by now.
func (f *failoverFixture) awaitTurns(n int) {
	f.Helper()
	begun := f.holders.len()
	redistest.AwaitFor(f, 2*redistest.Patience, f.kind.Name+": more turns", func() bool { return f.holders.len() >= begun+n })
}
