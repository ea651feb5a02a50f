// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P2: a minority of servers may die during a hold.
func TestAHoldOutlivesAMinorityOfItsServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	mu, other := w.lock("a", signalbox.RenewedLease(steady)), w.lock("a", signalbox.RenewedLease(steady))
	lease := w.mustLockAll(mu, "a")
	w.servers[0].Kill()
	w.servers[3].Kill()
	first := lease.Deadline()
	await(t, "two renewals by those that are left", func() bool { return lease.Deadline().After(first.Add(steady / 2)) })
	require.NoError(t, lease.Err())
	mustBeHeld(t.Context(), t, other)
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
	require.NoError(t, mustLock(t, other).Unlock(), "three servers are a quorum")
}

// P2: where a quorum dies, the holder is told before what is left of its hold can end.
func TestTheHolderIsToldBeforeItsHoldCanEndWhereAQuorumDied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	lease := w.mustLockAll(w.lock("a", signalbox.RenewedLease(moment)), "a")
	for _, s := range w.servers[:3] {
		s.Kill()
	}
	// The two that are left are renewed still, as long as the lease is: their keys end after it.
	for w.holds("a") > 0 {
		if lease.Err() != nil {
			break
		}
	}
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	w.awaitFree("a")
}

// P1: a server that comes back empty votes for nobody until the holds that it forgot are over. It would be the second
// of three that has nothing of this one's.
func TestAServerThatRestartedEmptyGrantsNothingForOneLease(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]func(w *world, i int){
		"Restarted": func(w *world, i int) { w.servers[i].Restart() },
		"Flushed":   func(w *world, i int) { w.servers[i].MustDo(w, "FLUSHALL") },
		"RestoredFromASnapshot": func(w *world, i int) {
			epoch := w.servers[i].MustDo(w, "GET", "sb:epoch")
			w.servers[i].Restart()
			w.servers[i].MustDo(w, "SET", "sb:epoch", epoch, "PX", 604800000)
		},
		"ItsEpochLost": func(w *world, i int) { w.servers[i].MustDo(w, "DEL", "sb:epoch", key("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			w.servers[0].MustDo(t, "SET", key("a"), foreign(strings.Repeat("1", 19)), "PX", 60_000) // so the hold is a bare quorum
			fixed := signalbox.FixedLease(8 * time.Second)
			// One that listens on no channel, and asks for nothing: it does not learn that its hold is no quorum's any more.
			lease := mustLock(t, redlock.New(w.sessions(signalbox.WithPolling()), "a", fixed))
			require.Equal(t, 3, w.holds("a"))
			loss(w, 2)
			w.servers[0].MustDo(t, "DEL", key("a")) // the other hold ends
			other := w.lock("a", fixed)
			refused := false
			await(t, "the end of the lease", func() bool {
				next, err := other.TryLock(t.Context())
				if err == nil {
					require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
					require.NoError(t, next.Unlock())
				}
				refused = refused || errors.Is(err, signalbox.ErrRefused) && strings.Contains(err.Error(), "lost its data lately")
				return lease.Err() != nil
			})
			require.True(t, refused)
			next := mustLock(t, other)
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
			require.NoError(t, next.Unlock())
		})
	}
}

// A server that was always there grants on.
func TestAnEpochIsKeptByItsUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	for _, s := range w.servers {
		s.MustDo(t, "PEXPIRE", "sb:epoch", patience.Milliseconds())
	}
	lease := mustLock(t, w.lock("a"))
	defer func() { require.NoError(t, lease.Unlock()) }()
	w.awaitHolds("a", 3)
	for _, s := range w.servers {
		await(t, "the epoch has a week again", func() bool {
			left, _ := s.MustDo(t, "PTTL", "sb:epoch").(int64)
			return left > 6*24*3600*1000
		})
	}
}

// P1: what is longest for the name counts, not what this lock asks for.
func TestTheGreatestLeaseIsThatOfAllProcesses(t *testing.T) {
	t.Parallel()
	w := newServers(t, 3)
	longer := w.lock("a", signalbox.FixedLease(moment), redlock.GreatestLease(time.Hour))
	await(t, "a refusal that names the hour", func() bool {
		_, err := longer.TryLock(t.Context())
		require.Error(t, err)
		return errors.Is(err, signalbox.ErrRefused) && (strings.Contains(err.Error(), "59m") || strings.Contains(err.Error(), "1h0m"))
	})
	require.NoError(t, mustLock(t, w.lock("a", signalbox.FixedLease(moment))).Unlock())
}

// P6: a server that is frozen, dead, or far away delays nobody. Each of these would take a second for each Lock and Unlock if it
// were waited for, 60 s in all.
func TestAServerThatDoesNotAnswerDelaysNobody(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *world){
		"Frozen": func(w *world) { w.servers[1].Freeze() },
		"Dead":   func(w *world) { w.servers[1].Kill() },
		"Gone":   func(w *world) { w.servers[1].Kill(); w.proxies[1].Refuse() },
		"Far":    func(w *world) { w.proxies[1].SetLatency(10 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			mu := w.lock("a")
			require.NoError(t, mustLock(t, mu).Unlock())
			fail(w)
			began := time.Now()
			for range 30 {
				require.NoError(t, mustLock(t, mu).Unlock())
			}
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

// A slow server is given its time: what it grants after the others decided is the hold's, and is given back with it.
func TestASlowServersVoteBelongsToTheHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	sessions := w.sessions()
	mu := redlock.New(sessions, "a")
	lease := w.mustLockAll(mu, "a")
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
	w.proxies[2].SetMatch(runs(scripts.RedlockAcquire))
	slow := w.proxies[2].Arm(delayed(300 * time.Millisecond))
	lease = mustLock(t, mu)
	within(t, "the slow reply", slow.Fired())
	w.awaitHolds("a", 3)
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
	settled(t, sessions)
	require.Zero(t, w.holds("a"))
}

// What a server was asked for is given back once, also where it had not answered when the hold was over, and whichever of its answers is
// read first; what it was not asked for is not given back.
func TestASlowServersVoteIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	slow := w.proxies[2]
	var acquires, releases atomic.Int64
	slow.OnRequest(func(_ int, req []string) {
		switch req[1] {
		case scripts.RedlockAcquire.SHA1:
			acquires.Add(1)
		case scripts.RedlockRelease.SHA1:
			releases.Add(1)
		}
	})
	slow.SetMatch(runs(scripts.RedlockAcquire, scripts.RedlockRelease))
	slow.SetLatency(20 * time.Millisecond)
	// What is not answered within a second is repeated. Where all of it took less, nothing was for that.
	await(t, "a while in which the machine did not stand still", func() bool {
		sessions := w.sessions()[:2]
		// Over one connection, where a release hardly ever overtakes the acquire.
		sessions = append(sessions, signalbox.NewSession(slow.Client(t, func(o *rueidis.ClientOption) {
			signalbox.Tune(o)
			o.PipelineMultiplex = -1
		})))
		warm := w.mustLockAll(redlock.New(sessions, "a"), "a") // all know the scripts and the time
		require.NoError(t, warm.Unlock())
		w.awaitFree("a")
		acquires.Store(0)
		releases.Store(0)
		began := time.Now()
		w.lockInTurn(sessions)
		took := time.Since(began)
		require.Positive(t, acquires.Load())
		require.GreaterOrEqual(t, releases.Load(), acquires.Load())
		// One that overtook its acquire on the way out of the process found nothing, and is repeated: that is rare.
		if took >= session.UnlockPatience {
			return false
		}
		require.Less(t, releases.Load(), acquires.Load()*3/2)
		return true
	})
}

// lockInTurn takes and gives back locks of many names, and closes the sessions.
func (w *world) lockInTurn(sessions []*signalbox.Session) {
	w.Helper()
	const names = 20
	for i := range names { // one that is used again is asked for when what was there before is gone
		require.NoError(w, mustLock(w, redlock.New(sessions, fmt.Sprint(i))).Unlock())
	}
	w.nothing(sessions)
	for i := range names {
		require.Zero(w, w.holds(fmt.Sprint(i)))
	}
}

// P4: a server that was frozen meanwhile is left with nothing, whenever it comes back.
func TestAServerThatThawsIsLeftWithNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	mu := w.lock("a", signalbox.RenewedLease(moment))
	require.NoError(t, mustLock(t, mu).Unlock())
	w.servers[1].Freeze()
	lease := mustLock(t, mu)
	require.NoError(t, lease.Unlock())
	w.servers[1].Thaw()
	w.awaitFree("a")
	require.NoError(t, mustLock(t, mu).Unlock())
}

// H18: a server has one vote, however many sessions go to it.
func TestAServerListedTwiceVotesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	to := func(servers ...int) []*signalbox.Session {
		var all []*signalbox.Session
		for _, i := range servers {
			all = append(all, newSession(t, w.servers[i]))
		}
		return all
	}
	for range 20 {
		_, err := redlock.New(to(0, 0, 0), "a").TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "same server")
		w.awaitFree("a")
	}
	// Two of two are a quorum of three, and need both of them.
	sessions := to(0, 0, 1)
	mu := redlock.New(sessions, "a")
	lease := mustLock(t, mu)
	require.Equal(t, 2, w.holds("a"))
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
	w.servers[1].Kill()
	for range 20 {
		_, err := mu.TryLock(t.Context())
		require.Error(t, err, "one server is no quorum")
	}
	settled(t, sessions[:2])
}
