// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2, P3: what the replica never had is lost, and reported, and the next holder's token is greater.
func TestAHoldThatTheReplicaNeverHadIsReportedLost(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	for _, f := range all { // the floor of the tokens, which the replica has
		f.mustUnlock(f.mustLock(f.lock(f.session())))
	}
	primary.AwaitCopied(t, s.Replica(t))
	// From here to Kill every second counts: sentinels promote no replica that lost its link ten seconds before they missed the
	// primary. So the sessions have their connections already.
	primary.MustDo(t, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
	primary.MustDo(t, "CLIENT", "KILL", "TYPE", "replica")
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.sessions[0], signalbox.WithRenewedLease(failoverLease))))
	}
	primary.Kill()
	results := followAll(held, failoverLease)
	promoted := s.AwaitFailover(t, primary)
	for i, f := range all {
		require.False(t, f.held(promoted))
		require.ErrorIs(t, <-results[i], signalbox.ErrLost)
		f.holders.leave(held[i])
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		f.holders.mustBeTrue(t)
	}
	mustAllRest(all)
}

// P4, P6: the primary dies under waiters and under many clients that alternate, some of which are just
// acquiring, or releasing.
func TestWaitersOutliveTheirPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var crowds []*workload
	for _, f := range all {
		crowds = append(crowds, f.load())
	}
	primary.Kill()
	s.AwaitFailover(t, primary)
	for _, f := range all {
		f.awaitTurns(50)
	}
	for i, f := range all {
		crowds[i].end()
		f.mustReceive()
	}
	mustAllRest(all)
}

// P4, P5: a lock is released at a primary that is about to die. The caller gets an unknown outcome, and the
// lock is released at the new primary, before its key would end.
func TestAnUnlockIsResolvedAtTheNewPrimary(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	s := sentinels(t)
	primary := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(long), signalbox.WithFirstLease(long))))
	}
	primary.AwaitCopied(t, s.Replica(t))
	var waiters []*lockCall
	for _, f := range all {
		waiters = append(waiters, f.wait(ended(t, long)))
	}
	primary.Freeze()
	locktest.Together(t, len(all), func(i int) error {
		all[i].holders.leave(held[i])
		err := held[i].Unlock()
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
		return nil
	})
	primary.Kill()
	s.AwaitFailover(t, primary)
	for i, f := range all {
		waiters[i].mustGet()
		f.mustUnlock(waiters[i].lease)
		f.holders.mustBeTrue(t)
	}
	mustAllRest(all)
}

// P1, P2, P3, P6: a primary is stopped, replaced, and continues. Holds that its replica had continue, and waiters move to the new one
// with their channel.
func TestEveryClientLeavesAStoppedPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var held []signalbox.Lease
	var waiters []*lockCall
	var crowds []*workload
	busy := failoverFixtures(t, s, anyKey)
	for i, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(failoverLease))))
		waiters = append(waiters, f.wait(ended(t, wait)))
		busy[i].rename("busy", anyKey)
		crowds = append(crowds, busy[i].load())
	}
	old.AwaitCopied(t, s.Replica(t))

	old.Freeze()
	results := followAll(held, failoverLease)
	now := s.AwaitFailover(t, old)
	for i, f := range all {
		redistest.Await(t, "a listener at the new primary", func() bool {
			return len(f.listenersAt(now)) > 0
		})
		f.mustEnd(held[i], <-results[i], now)
		busy[i].awaitTurns(20)
	}
	old.Thaw()
	for i, f := range all {
		busy[i].awaitTurns(100)
		redistest.Await(t, "no subscribers at the old primary", func() bool { return len(f.listenersAt(old)) == 0 })
		waiters[i].mustGet()
		f.mustUnlock(waiters[i].lease)
	}
	s.AwaitReady(t)
	for i, f := range all {
		crowds[i].end()
		f.holders.mustBeTrue(t)
		f.mustReceive()
	}
	for i, f := range all {
		f.mustRest()
		busy[i].mustRest()
	}
}

// P6: the sentinels' message about the new primary is lost. A client asks them all the same, see Tune.
func TestALostSwitchIsFoundOut(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	silent := redistest.NewProxy(t, s.Sentinels()[0].Addr())
	all := failoverFixtures(t, proxiedSentinels{s, silent}, anyKey)
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
	}
	silent.DropPushes(true)
	primary.Kill()
	s.AwaitFailover(t, primary)
	for _, f := range all {
		require.NoError(t, f.pass(ended(t, wait), f.lock(f.sessions[0])))
		f.holders.mustBeTrue(t)
	}
}

// proxiedSentinels is sentinels of which clients know one, through a proxy.
type proxiedSentinels struct {
	*redistest.Sentinel

	proxy *redistest.Proxy
}

// Client implements redistest.Topology.
func (p proxiedSentinels) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return p.Sentinel.Client(tb, func(o *rueidis.ClientOption) {
		mod(o)
		o.InitAddress = []string{p.proxy.Addr()}
	})
}

// P3: a primary that was stopped and replaced continues, and a client asks it that does not know the new one.
// What it grants is lost and reported; tokens show which came later.
func TestWhatAnOldPrimaryGrantsIsReportedLost(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	old := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var strays []*signalbox.Session
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		strays = append(strays, locktest.Session(t, tunedTopology{old}))
	}
	old.Freeze()
	s.AwaitFailover(t, old)
	var held []signalbox.Lease
	for _, f := range all {
		held = append(held, f.mustLock(f.lock(f.session(), signalbox.WithRenewedLease(failoverLease))))
	}
	old.Thaw()
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		before := f.holders.last()
		lease, err := f.lock(strays[i], signalbox.WithRenewedLease(failoverLease)).TryLock(locktest.Context(t))
		if err != nil {
			return nil
		}
		f.holders.enter(lease, before)
		defer f.holders.leave(lease)
		redistest.PollUntil(failoverLease+redistest.Patience, func() bool { return lease.Err() != nil }) // renewed until the old one knows
		if !errors.Is(lease.Err(), signalbox.ErrLost) {
			return fmt.Errorf("%s: held on at a primary that is none: %w", f.kind.Name, lease.Err())
		}
		return nil
	})
	s.AwaitReady(t)
	for i, f := range all {
		f.mustUnlock(held[i])
		f.mustUnlock(f.mustLock(f.lock(f.sessions[0])))
	}
	mustAllRest(all)
}

// P1: with min-replicas-to-write a primary without its replica grants nothing: neither the old one nor, until
// the old one follows it, the new one. No holds overlap, and the refusal has a name.
func TestMinReplicasKeepAnOldPrimaryFromGranting(t *testing.T) {
	t.Parallel()
	s := sentinels(t,
		redistest.WithArgs("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"))
	old := s.Primary(t)
	all := failoverFixtures(t, s, anyKey)
	var strays []*signalbox.Session
	for _, f := range all {
		f.mustUnlock(f.mustLock(f.lock(f.session())))
		strays = append(strays, locktest.Session(t, tunedTopology{old}))
	}
	old.Freeze()
	s.AwaitFailover(t, old)
	waiting := make([]chan error, len(all))
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		var err error
		if !redistest.PollUntil(2*redistest.Patience, func() bool { // some clients have to give the old one up first
			_, err = f.lock(f.sessions[0]).TryLock(ended(t, moment))
			return err != nil && strings.Contains(err.Error(), "NOREPLICAS")
		}) {
			return fmt.Errorf("%s: not refused, but: %w", f.kind.Name, err)
		}
		_, err = f.lock(f.sessions[0]).Lock(ended(t, moment))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "NOREPLICAS") {
			return fmt.Errorf("%s: Lock: %w", f.kind.Name, err)
		}
		waiting[i] = make(chan error, 1)
		go func() { waiting[i] <- f.pass(ended(t, wait), f.lock(f.sessions[0])) }()
		return nil
	})
	old.Thaw()
	locktest.Together(t, len(all), func(i int) error {
		f := all[i]
		before := f.holders.last()
		lease, err := f.lock(strays[i]).TryLock(locktest.Context(t))
		if err == nil {
			f.holders.enter(lease, before)
			f.holders.leave(lease)
			_ = lease.Unlock()
		}
		return nil
	})
	for i, f := range all {
		require.NoError(t, <-waiting[i])
		f.holders.mustBeTrue(t)
	}
	mustAllRest(all)
}

// movingAddress is one address that means a primary, and means its replica after a failover. Connections that were made
// before it stay where they are.
type movingAddress struct {
	*redistest.Proxy

	old, next *redistest.Server
}

func startAddress(t *testing.T) *movingAddress {
	t.Helper()
	a := &movingAddress{old: redistest.Start(t)}
	a.next = locktest.StartReplica(t, a.old)
	a.Proxy = redistest.NewProxy(t, a.old.Addr())
	return a
}

// failOver promotes the replica, and lets the former primary serve as before.
func (a *movingAddress) failOver(t *testing.T) {
	t.Helper()
	a.old.AwaitCopied(t, a.next)
	a.next.MustDo(t, "REPLICAOF", "NO", "ONE")
	a.SwitchTo(a.next.Addr())
}

// demote makes the former primary follow the promoted replica.
func (a *movingAddress) demote(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(a.next.Addr())
	require.NoError(t, err)
	a.old.MustDo(t, "REPLICAOF", host, port)
}

// P10: a demoted primary keeps its connections. The clients leave it: calls, leases, elections and messages continue at
// the server that the address means.
func TestADemotedPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	a := startAddress(t)
	holder, waiter, leader := locktest.Session(t, a), locktest.Session(t, a), locktest.Session(t, a)
	held, err := reentrant.New(holder, "held", signalbox.WithRenewedLease(failoverLease)).Lock(t.Context())
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		lease, err := reentrant.New(waiter, "held").Lock(t.Context())
		if err == nil {
			err = lease.Unlock()
		}
		got <- err
	}()
	redistest.Await(t, "a ticket", func() bool { return len(a.old.Keys("sb:*:queue")) > 0 })
	a.failOver(t)
	a.demote(t)

	lease, err := reentrant.New(holder, "other").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	ctx, cancel := context.WithCancel(t.Context())
	err = election.New(leader, "leader").Run(ctx, func(context.Context, election.Term) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock())
	require.NoError(t, redistest.Receive(t, "the waiter", got))
	redistest.Await(t, "no connection of a client at the demoted primary", func() bool { return clients(t, a.old) == 0 })
}

// clients returns how many clients of the test's sessions a server has.
func clients(t *testing.T, s *redistest.Server) int {
	t.Helper()
	n := 0
	for _, kind := range []string{"normal", "pubsub"} {
		list, _ := s.MustDo(t, "CLIENT", "LIST", "TYPE", kind).(string)
		for line := range strings.Lines(list) {
			if !strings.Contains(line, "cmd=client") {
				n++
			}
		}
	}
	return n
}

// P10: nor does a client stay with a former primary that refuses nothing.
func TestAFormerPrimaryThatStillServesIsLeft(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "connections end by their age, in seconds")
	a := startAddress(t)
	s := locktest.Session(t, a)
	held, err := reentrant.New(s, "held", signalbox.WithRenewedLease(failoverLease)).Lock(t.Context())
	require.NoError(t, err)
	redistest.Await(t, "a subscription", func() bool {
		list, _ := a.old.MustDo(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)
		return list != ""
	})
	a.failOver(t)
	begun := time.Now()
	redistest.Await(t, "no connection of a client at the former primary", func() bool { return clients(t, a.old) == 0 })
	redistest.AwaitFor(t, 2*failoverLease, "the end of the lease, unless it is renewed", func() bool { return time.Since(begun) > failoverLease+time.Second })
	require.NoError(t, held.Err())
	require.Len(t, a.next.Keys("sb:*:lock"), 1)
	require.NoError(t, held.Unlock())
}

// P10: a list is never one of a demoted primary, which would yield old names without a refusal.
func TestAListLeavesADemotedPrimary(t *testing.T) {
	t.Parallel()
	a := startAddress(t)
	s, other := locktest.Session(t, a), locktest.Session(t, a.next)
	list := func(on *signalbox.Session) (names []string, err error) {
		for entry, err := range inspect.Names(t.Context(), on, "", inspect.FullSpeed()) {
			if err != nil {
				return nil, err
			}
			names = append(names, entry.Name)
		}
		return names, nil
	}
	_, err := list(other)
	require.ErrorIs(t, err, signalbox.ErrRefused, "of a replica")
	_, err = list(s)
	require.NoError(t, err)

	a.failOver(t)
	a.demote(t)
	a.old.MustDo(t, "REPLICAOF", "127.0.0.1", "1") // what it has will be old
	_, err = reentrant.New(other, "new").Lock(t.Context())
	require.NoError(t, err)
	names, err := list(s)
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, names)
}

// campaigners are processes that campaign again and again. Each resigns after some terms' worth of work, or loses its term.
type campaigners struct {
	*testing.T

	name   string
	terms  atomic.Int64
	leads  atomic.Int32
	cancel context.CancelFunc
	ran    sync.WaitGroup

	mu   sync.Mutex
	last uint64 // the greatest token
}

// campaign starts n processes.
func campaign(t *testing.T, top redistest.Topology, name string, n int, options ...signalbox.LockOption) *campaigners {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &campaigners{T: t, name: name, cancel: cancel}
	options = append(options, signalbox.WithRenewedLease(failoverLease))
	for range n {
		s := locktest.Session(t, tunedTopology{top})
		c.ran.Go(func() {
			for ctx.Err() == nil {
				_ = election.New(s, name, options...).Run(ctx, c.lead) // an error says that a term is not known to be resigned
			}
		})
	}
	return c
}

// lead is a term: no other candidate leads in it, and its token is the greatest so far.
func (c *campaigners) lead(ctx context.Context, term election.Term) error {
	if n := c.leads.Add(1); n != 1 && ctx.Err() == nil {
		c.Errorf("%d lead", n)
	}
	c.mu.Lock()
	if term.Token() <= c.last && ctx.Err() == nil {
		c.Errorf("token %d after %d", term.Token(), c.last)
	}
	c.last = max(c.last, term.Token())
	c.mu.Unlock()
	c.terms.Add(1)
	for i := 0; i < 10 && ctx.Err() == nil; i++ {
		_ = term.SetValue(ctx, fmt.Sprint(term.Token())) // fails when the term ends
	}
	c.leads.Add(-1)
	return nil
}

// mustLead waits until there were so many terms more.
func (c *campaigners) mustLead(n int64) {
	c.Helper()
	from := c.terms.Load()
	redistest.AwaitFor(c, 2*redistest.Patience, "terms", func() bool { return c.terms.Load() >= from+n })
}

func (c *campaigners) end() {
	c.cancel()
	c.ran.Wait()
}

// observe follows the leaders of an election, and reports a token that falls.
func observe(t *testing.T, s *signalbox.Session, name string) (last *atomic.Uint64) {
	t.Helper()
	last = new(atomic.Uint64)
	ctx, cancel := context.WithCancel(t.Context())
	var ran sync.WaitGroup
	ran.Go(func() {
		for l, err := range election.New(s, name).Observe(ctx) {
			if err == nil && l.Token > 0 {
				last.Store(l.Token)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		ran.Wait()
	})
	return last
}

// P1, P3, P6: an election outlives its primary: with WithReplicas no two lead at once, tokens rise, and observers follow.
func TestElectionOutlivesItsPrimary(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	c := campaign(t, s, t.Name(), 3, signalbox.WithReplicas(1, time.Second))
	seen := observe(t, locktest.Session(t, tunedTopology{s}), c.name)
	c.mustLead(20)
	primary.AwaitCopied(t, s.Replica(t))
	primary.Kill()
	promoted := s.AwaitLastFailover(t, primary)
	primary.Restart() // without a replica WithReplicas grants nothing
	promoted.AwaitCopied(t, primary)
	before := seen.Load()
	c.mustLead(20)
	redistest.AwaitFor(t, 2*redistest.Patience, "an observer that follows", func() bool { return seen.Load() > before })
	c.end()
}

// P1: an outcome is stored once though its primary dies: one function runs to its end, and its value is what every caller gets, those
// that come later too.
func TestAnOutcomeIsStoredOnce(t *testing.T) {
	t.Parallel()
	s := sentinels(t)
	primary := s.Primary(t)
	var stored atomic.Pointer[string]
	running, proceed := make(chan struct{}, 1), make(chan struct{})
	do := func(name string) <-chan locktest.Result[[]byte] {
		session := locktest.Session(t, tunedTopology{s})
		return locktest.Later(func() ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*redistest.Patience)
			defer cancel()
			value, ran, err := once.New(session, "report", signalbox.WithReplicas(1, time.Second)).Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
				select {
				case running <- struct{}{}:
					<-proceed
				default:
				}
				return []byte(name), nil
			})
			if ran && err == nil && !stored.CompareAndSwap(nil, &name) {
				t.Errorf("%s stored an outcome beside that of %s", name, *stored.Load())
			}
			return value, err
		})
	}
	first := do("first")
	redistest.AwaitFor(t, redistest.Patience, "a function that runs", func() bool { return len(running) == 1 })
	second := do("second")
	primary.AwaitCopied(t, s.Replica(t))
	primary.Kill()
	promoted := s.AwaitLastFailover(t, primary)
	primary.Restart() // without a replica WithReplicas grants nothing
	promoted.AwaitCopied(t, primary)
	close(proceed)
	third := do("third")
	for _, returned := range []<-chan locktest.Result[[]byte]{first, second, third} {
		value := redistest.ReceiveFor(t, 4*redistest.Patience, "an outcome", returned)
		require.NoError(t, value.Err)
		require.Equal(t, *stored.Load(), string(value.Value))
	}
}
