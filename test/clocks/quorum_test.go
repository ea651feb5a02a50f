// SPDX-License-Identifier: Apache-2.0

package clocks_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// establish lets a server look as one that has had its data for a day, so that it grants at once.
const establish = `
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = string.format('%016.0f', redis.call('TIME')[1] * 1000000 - 86400000000)
return redis.call('SET', KEYS[1], 'sb1e' .. since .. since .. life, 'PX', 604800000)`

// The servers of a quorum whose clocks are off.
const ahead, behind = 1, 3

// quorum answers five servers of which one is a minute ahead, and another as far behind.
func quorum(t *testing.T) (servers []*redistest.Server) {
	t.Helper()
	redistest.NeedClocks(t)
	for i := range 5 {
		s := redistest.Start(t, redistest.WithClockAhead(map[int]time.Duration{ahead: off, behind: -off}[i]))
		s.MustDo(t, "EVAL", establish, 1, "sb:epoch")
		servers = append(servers, s)
	}
	return servers
}

// process answers sessions as a process of its own would have them.
func process(t *testing.T, servers []*redistest.Server) (sessions []*signalbox.Session) {
	t.Helper()
	for _, s := range servers {
		sessions = append(sessions, locktest.Session(t, s))
	}
	return sessions
}

// tokens are the two sorts of them.
func tokens() map[string][]redlock.Option {
	return map[string][]redlock.Option{"Plain": {}, "Fenced": {redlock.Fenced()}}
}

// P1, P2, P3: servers that disagree on the time by two minutes give a lock to one at a time, renew it, and tokens rise as long as each hold is
// given back.
func TestAQuorumWhoseServersDisagreeOnTheTime(t *testing.T) {
	t.Parallel()
	for name, options := range tokens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := quorum(t)
			options := append(options, signalbox.RenewedLease(life))
			one := redlock.New(process(t, servers), "a", options...)
			other := redlock.New(process(t, servers), "a", options...)
			third := redlock.New(process(t, servers), "a", options...)
			var last uint64
			for i := range 6 {
				lease := mustLock(t, one)
				require.Greater(t, lease.Token(), last)
				last = lease.Token()
				if i == 0 {
					renewedTwice(t, lease)
				}
				waiting := lockLater(t, other)
				// A server that does not answer in a tenth of a lease says nothing, and a vote without it may come to nothing.
				redistest.Await(t, "the answer that somebody has the lock", func() bool {
					_, err := third.TryLock(locktest.Context(t))
					require.Error(t, err)
					return errors.Is(err, signalbox.ErrHeld)
				})
				require.NoError(t, lease.Err())
				giveBack(t, lease)
				next := mustHave(t, waiting)
				require.Greater(t, next.Token(), last)
				last = next.Token()
				giveBack(t, next)
				servers[i%2*2].Freeze() // another quorum each time
				one, other = other, one
				servers[(i+1)%2*2].Thaw()
			}
		})
	}
}

// giveBack unlocks. What a quorum does not confirm in a second, on a machine that stalls, is given back after it.
func giveBack(t *testing.T, lease signalbox.Lease) {
	t.Helper()
	if err := lease.Unlock(); err != nil {
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	}
}

// P3: the quorums of two holds have one server in common, and the first hold is not given back: its process is cut off. A token of the server
// that is ahead is passed by the next one with Fenced, and without it is not: the clocks differ by more than a lease.
func TestATokenOfAServerThatIsAhead(t *testing.T) {
	t.Parallel()
	for name, options := range tokens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := quorum(t)
			sessions, wires := wired(t, servers)
			options := append(options, signalbox.RenewedLease(life))
			other := redlock.New(process(t, servers), "a", options...)
			cut(wires[0], wires[4])
			lease := mustLock(t, redlock.New(sessions, "a", options...))
			cut(wires...)
			servers[ahead].Kill()
			next := mustLock(t, other)
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
			if name == "Fenced" {
				require.Greater(t, next.Token(), lease.Token())
			} else {
				require.Less(t, next.Token(), lease.Token(), "what Fenced is for")
			}
			require.NoError(t, next.Unlock())
		})
	}
}

// P1: a server that is ahead, or behind, and restarts empty grants nothing for one lease, by its own clock. It would be the third of five that
// has nothing of this hold.
func TestAServerWhoseClockIsOffForgets(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]int{"Ahead": ahead, "Behind": behind} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := quorum(t)
			sessions, wires := wired(t, servers)
			options := signalbox.FixedLease(3 * time.Second)
			other := redlock.New(process(t, servers), "a", options)
			cut(wires[0], wires[2]) // so that the hold is a bare quorum
			lease := mustLock(t, redlock.New(sessions, "a", options))
			cut(wires...) // its process does not learn that it has a quorum no more
			servers[forgets].Restart()
			next := mustLock(t, other)
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost, "held by two")
			require.NoError(t, next.Unlock())
		})
	}
}

// wired is process with a wire to each server.
func wired(t *testing.T, servers []*redistest.Server) (sessions []*signalbox.Session, wires []*redistest.Proxy) {
	t.Helper()
	for i, s := range servers {
		wires = append(wires, redistest.NewProxy(t, s.Addr()))
		sessions = append(sessions, locktest.Session(t, wires[i]))
	}
	return sessions, wires
}

// cut lets nothing through wires any more.
func cut(wires ...*redistest.Proxy) {
	for _, w := range wires {
		w.Refuse()
		w.CutAll()
	}
}
