// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// take acquires n locks.
func take(e *shardedEndpoint, s *signalbox.Session, n int, options ...signalbox.LockOption) []signalbox.Lease {
	e.Helper()
	leases := make([]signalbox.Lease, n)
	for i := range leases {
		var err error
		leases[i], err = reentrant.New(s, fmt.Sprint("lock-", i), options...).Lock(locktest.Context(e))
		require.NoError(e, err)
	}
	return leases
}

// P1: members in different slots exclude each other and all others, and are acquired slot by slot.
func TestMembersExcludeEachOtherBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a router loses messages, and a poll comes a second later")
	everywhere(t, func(e *shardedEndpoint) {
		var inside [6]atomic.Int32
		ctx, cancel := context.WithTimeout(e.Context(), redistest.WaitLimit)
		defer cancel()
		locktest.Together(e, 4, func(i int) error {
			s := e.session()
			for round := range 3 {
				which := []int{round, (round + 1 + i) % 6, 5 - round%2, 3}
				slices.Sort(which)
				which = slices.Compact(which)
				var members []multilock.Member
				for _, n := range which {
					members = append(members, reentrant.New(s, fmt.Sprint("member-", n)))
				}
				lease, err := multilock.New(members...).Lock(ctx)
				if err != nil {
					return err
				}
				for _, n := range which {
					if inside[n].Add(1) != 1 {
						return fmt.Errorf("two have member %d", n)
					}
				}
				for _, n := range which {
					inside[n].Add(-1)
				}
				if err := released(lease); err != nil {
					return err
				}
			}
			return nil
		})
		e.nothingLeft()
	})
}

// P1, P4: TryLock acquires free members in different slots and no member that is held, and its Unlock releases all.
func TestMembersAreTriedBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	everywhere(t, func(e *shardedEndpoint) {
		one, other := e.session(), e.session()
		members := func(s *signalbox.Session) []multilock.Member {
			return []multilock.Member{reentrant.New(s, "a"), reentrant.New(s, "b"), fair.New(s, "c"), fair.New(s, "d"), reentrant.New(s, "e")}
		}
		mine, theirs := multilock.New(members(one)...), multilock.New(members(other)...)
		for range 2 {
			learnSlots(one, other)
			lease, err := mine.TryLock(locktest.Context(e))
			require.NoError(e, err)
			_, err = theirs.TryLock(locktest.Context(e))
			require.ErrorIs(e, err, signalbox.ErrHeld)
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				_, err = reentrant.New(other, name).TryLock(locktest.Context(e))
				require.ErrorIs(e, err, signalbox.ErrHeld, "member %s", name)
			}
			e.release(lease)
			e.nothingLeft()
		}
		single := locktest.Must(e, reentrant.New(other, "c").Lock)
		learnSlots(one)
		_, err := mine.TryLock(locktest.Context(e))
		require.ErrorIs(e, err, signalbox.ErrHeld)
		e.release(single)
		e.nothingLeft()
	})
}

// P4: Close withdraws all tickets and releases all holds, at every shard.
func TestCloseLeavesNothingBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	everywhere(t, func(e *shardedEndpoint) {
		holder, waiter := e.session(), e.session()
		leases := take(e, holder, 12)
		ctx, cancel := context.WithCancel(e.Context())
		defer cancel()
		var waiting []<-chan locktest.Result[signalbox.Lease]
		for i := range leases {
			waiting = append(waiting, locktest.LaterWith(ctx, reentrant.New(waiter, fmt.Sprint("lock-", i)).Lock))
		}
		redistest.Await(e, "a ticket for each", func() bool { return e.tickets(len(leases)) == len(leases) })
		require.NoError(e, waiter.Close(locktest.Context(e)))
		for _, w := range waiting {
			require.ErrorIs(e, locktest.MustFail(e, w), signalbox.ErrClosed)
		}
		many, err := multilock.New(reentrant.New(holder, "x"), reentrant.New(holder, "y"), reentrant.New(holder, "z")).Lock(locktest.Context(e))
		require.NoError(e, err)
		require.Error(e, holder.Close(locktest.Ended()), "holders were left")
		require.ErrorIs(e, many.Err(), signalbox.ErrClosed)
		e.nothingLeft()
	})
}

// P1, P2: the holds of one server are kept when a router is put before it.
func TestARouterThatComesLaterLosesNoLease(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "keys end by the clocks of real servers")
	for name, routing := range map[string]redistest.Routing{
		"Refusing": redistest.Refusing, "OwnWords": redistest.OwnWords, "Hangup": redistest.Hangup,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const life = 5 * time.Second
			e := routed(redistest.OneShard, 1)(t)
			router, _ := e.to.(*redistest.Router)
			s := e.session()
			leases := take(e, s, 20, signalbox.WithRenewedLease(life))
			redistest.Await(t, "the slots that a script may have", func() bool { return locktest.LearnSlots(s) })
			router.Route(routing)
			until := time.Now().Add(2 * life)
			redistest.Await(t, "several renewals of each", func() bool {
				for _, lease := range leases {
					require.NoError(t, lease.Err())
				}
				return time.Now().After(until)
			})
			for _, lease := range leases {
				e.release(lease)
			}
			e.nothingLeft()
		})
	}
}

// P10: a quorum is made of single servers, and says so of others.
func TestAQuorumOfShardsIsRefused(t *testing.T) {
	t.Parallel()
	e := routed(redistest.Refusing, 2)(t)
	sessions := []*signalbox.Session{e.session(), e.session(), e.session()}
	for _, take := range []func(context.Context) (signalbox.Lease, error){redlock.New(sessions, "a").Lock, redlock.New(sessions, "a").TryLock} {
		_, err := take(locktest.Context(t))
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "CROSSSLOT")
	}
}

// P6: waiters for many names in different slots stay alive while these are held for long, and keep their order.
func TestWaitersStayAliveBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a waiter counts as dead three seconds after its last heartbeat")
	everywhere(t, func(e *shardedEndpoint) {
		const n = 10
		holder, first, second := e.session(), e.session(), e.session()
		leases := take(e, holder, n)
		waits := func(s *signalbox.Session) (waiting []<-chan locktest.Result[signalbox.Lease]) {
			for i := range n {
				waiting = append(waiting, locktest.LaterWith(locktest.Context(e), fair.New(s, fmt.Sprint("lock-", i)).Lock))
			}
			return waiting
		}
		early := waits(first)
		redistest.Await(e, "the first tickets", func() bool { return e.tickets(n) == n })
		late := waits(second)
		redistest.Await(e, "all tickets", func() bool { return e.tickets(n) == 2*n })
		until := time.Now().Add(5 * time.Second)
		redistest.Await(e, "more than a life of a waiter", func() bool { return time.Now().After(until) })
		require.Equal(e, 2*n, e.tickets(n))
		for i, lease := range leases {
			e.release(lease)
			got := locktest.MustHave(e, early[i])
			require.False(e, locktest.IsClosed(late[i]))
			e.release(got)
			e.release(locktest.MustHave(e, late[i]))
		}
		e.nothingLeft()
	})
}

// P4, P5: an error that a proxy invents for a script with keys of several slots leaves no member held.
func TestInventedErrorsLeaveNoMember(t *testing.T) {
	t.Parallel()
	for _, script := range []*scripts.Script{proto.LockAcquireManyScript, proto.LockReleaseManyScript} {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			e := routed(redistest.OneShard, 1)(t)
			router, _ := e.to.(*redistest.Router)
			s := e.session()
			redistest.Await(t, "the slots that a script may have", func() bool { return locktest.LearnSlots(s) })
			var invented atomic.Int64
			router.InjectErrors(func(words []string) string {
				if locktest.RunsScript(script)(words) && invented.Add(1) == 1 {
					return "ERR upstream failure"
				}
				return ""
			})
			many := multilock.New(reentrant.New(s, "x"), reentrant.New(s, "y"), reentrant.New(s, "z"))
			lease, err := many.Lock(locktest.Context(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock())
			require.EqualValues(t, 1, invented.Load(), "from then on slot by slot")
			e.nothingLeft()
		})
	}
}

// shardedEndpoint is one address with shards behind it.
type shardedEndpoint struct {
	testing.TB

	to     redistest.Dialer
	shards []*redistest.Server
}

// everywhere runs a test at every kind of endpoint.
func everywhere(t *testing.T, test func(e *shardedEndpoint)) {
	t.Helper()
	run := func(name string, make func(t *testing.T) *shardedEndpoint) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(make(t))
		})
	}
	run("OneNode", oneNode)
	run("Refusing", routed(redistest.Refusing, 2))
	run("OwnWords", routed(redistest.OwnWords, 3))
	run("FirstKey", routed(redistest.FirstKey, 2))
	run("FirstKeyOfThree", routed(redistest.FirstKey, 3))
	run("Hangup", routed(redistest.Hangup, 2))
}

// oneNode is a node with all slots of a cluster, for clients that take it for a single server.
func oneNode(t *testing.T) *shardedEndpoint {
	t.Helper()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	s := nodeWithAllSlots(t)
	return &shardedEndpoint{t, plainServer{s}, []*redistest.Server{s}}
}

// nodeWithAllSlots starts a node of a cluster that has no other.
func nodeWithAllSlots(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	s.AddAllSlots(t)
	redistest.Await(t, "a cluster", func() bool {
		info, _ := s.MustDo(t, "CLUSTER", "INFO").(string)
		return strings.Contains(info, "cluster_state:ok")
	})
	return s
}

// plainServer makes clients that do not ask whether there is a cluster.
type plainServer struct{ *redistest.Server }

// Client implements redistest.Dialer.
func (s plainServer) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return s.Server.Client(tb, func(o *rueidis.ClientOption) {
		o.ForceSingleClient = true
		mod(o)
	})
}

// routed is a router in front of so many servers.
func routed(routing redistest.Routing, n int) func(t *testing.T) *shardedEndpoint {
	return func(t *testing.T) *shardedEndpoint {
		t.Helper()
		e := &shardedEndpoint{TB: t}
		for range n {
			e.shards = append(e.shards, redistest.Start(t))
		}
		e.to = redistest.NewRouter(t, routing, e.shards...)
		return e
	}
}

func (e *shardedEndpoint) session(options ...signalbox.SessionOption) *signalbox.Session {
	e.Helper()
	return locktest.SteadySession(e, e.to, options...)
}

// learnSlots lets the probes of sessions end. A probe that the endpoint hangs up on breaks the session's connection, and fails
// a TryLock that shares it. The next probe is a second away at least.
func learnSlots(sessions ...*signalbox.Session) {
	for _, s := range sessions {
		locktest.LearnSlots(s)
	}
}

// released releases a lease. A probe may break the connection of the release, which is then unconfirmed and repeated in the
// background: nothingLeft waits for it.
func released(lease signalbox.Lease) error { return locktest.IgnoreUnconfirmed(lease.Unlock()) }

func (e *shardedEndpoint) release(lease signalbox.Lease) {
	e.Helper()
	require.NoError(e, released(lease))
}

// tickets returns how many tickets there are for the first n locks.
func (e *shardedEndpoint) tickets(n int) (tickets int) {
	e.Helper()
	for i := range n {
		for _, shard := range e.shards {
			tickets += locktest.Tickets(e, shard, fmt.Sprint("lock-", i))
		}
	}
	return tickets
}

// nothingLeft waits until no shard has a hold or a ticket.
func (e *shardedEndpoint) nothingLeft() {
	e.Helper()
	for _, shard := range e.shards {
		view := locktest.NewView(e, plainServer{shard})
		redistest.Await(e, "the end of every hold and ticket", func() bool {
			immortal, held, err := view.Leaks()
			require.NoError(e, err)
			require.Empty(e, immortal)
			return len(held) == 0
		})
	}
}
