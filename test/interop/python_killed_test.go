// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// sessionsOf returns the sessions whose tickets wait for a lock, the first in the queue first.
func sessionsOf(t *testing.T, server *redistest.Server, release string) (sessions []string) {
	t.Helper()
	tickets, _ := server.MustDo(t, "ZRANGE", release, 0, -1).([]any)
	for _, ticket := range tickets {
		sessions = append(sessions, fmt.Sprint(ticket)[:22])
	}
	return sessions
}

// P6: Python processes that are killed while they wait delay no other: the release grants the lock to the waiter in Go behind
// them, in the same step.
func TestKilledPythonWaitersDelayNoOther(t *testing.T) {
	t.Parallel()
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t, thisScript)
	held, err := reentrant.New(locktest.Session(t, server), "a").Lock(locktest.Context(t))
	require.NoError(t, err)
	waiters := make([]*redistest.Process, redistest.Rounds(2, 20))
	for i := range waiters {
		waiters[i] = startPython(t, server.Addr(), folder, "hold", "a", "30")
	}
	redistest.AwaitFor(t, time.Minute, "Python waits", func() bool { return locktest.Tickets(t, server, "a") == len(waiters) })
	dead := sessionsOf(t, server, "sb:{a}:queue")
	session := locktest.Session(t, server)
	taken := locktest.Queue(locktest.Context(t), t, fair.New(session, "a").Lock)
	redistest.Await(t, "Go waits behind them", func() bool { return locktest.Tickets(t, server, "a") == len(waiters)+1 })
	for _, waiter := range waiters {
		waiter.Kill()
	}
	for _, id := range dead {
		redistest.Await(t, "the server has seen its end", func() bool { return locktest.Listeners(t, server, "sb:grants:"+id) == 0 })
	}
	require.NoError(t, held.Unlock())
	value := fmt.Sprint(server.MustDo(t, "GET", locktest.Key("a")))
	require.Equal(t, session.ID(), value[20:42], "the lock was not granted to the waiter that lives")
	lease := locktest.MustHave(t, taken)
	require.Greater(t, lease.Token(), held.Token())
	require.NoError(t, lease.Unlock())
}

// P1, P6: the lock of a Python process that is killed goes to Go when its lease ends, and not before. The lease is that of the
// heartbeat (3 s) if the lock was granted to a waiter, else that of the call (1 s).
func TestKilledPythonHoldersDelayByTheirLease(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "leases of processes that were killed have to end")
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t, thisScript)
	session := locktest.Session(t, server)
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			name := "h" + strconv.Itoa(i)
			lock := fair.New(session, name)
			kill := func(holder *redistest.Process) { killHolder(t, server, session, holder, name) }
			if i%2 == 0 {
				kill(startPython(t, server.Addr(), folder, "hold", name, "1"))
				return
			}
			before := locktest.Must(t, lock.Lock)
			holder := startPython(t, server.Addr(), folder, "hold", name, "1")
			redistest.AwaitFor(t, time.Minute, "Python waits", func() bool { return locktest.Tickets(t, server, name) == 1 })
			require.NoError(t, before.Unlock())
			kill(holder)
		})
	}
}

// killHolder kills a Python process that is granted a lock. It lets a session in Go wait for it, and checks that the first poll
// after the end of the lease is granted the lock, and none before. It does not matter how late the session polls.
func killHolder(t *testing.T, server *redistest.Server, session *signalbox.Session, holder *redistest.Process, name string) {
	t.Helper()
	says(t, holder)
	lock := fair.New(session, name)
	taken := locktest.Later(func() (signalbox.Lease, error) { return lock.Lock(locktest.Context(t)) })
	redistest.Await(t, "Go waits", func() bool { return locktest.Tickets(t, server, name) == 1 })
	seen := monitor(t, server)
	holder.Kill()
	end := 1000 * (ends(t, server, locktest.Key(name)) - 15_000) // a key that is marked outlives its hold
	lease := locktest.MustHave(t, taken)
	granted := int64(lease.Token()/4) + 1_735_689_600_000_000
	require.GreaterOrEqual(t, granted, end, "granted before the lease had ended")
	var polls []int64
	redistest.Await(t, "the poll that was granted the lock is seen", func() bool {
		polls = seen.polls(t, name, session.ID())
		return slices.Contains(polls, granted)
	})
	for _, at := range polls {
		require.True(t, at < end || at >= granted, "a poll %d us after the end of the lease was not granted the lock", at-end)
	}
	require.NoError(t, lease.Unlock())
}

// polls returns when a session polled for a lock, in microseconds of the server's clock: a poll writes when its life ends.
func (c *commands) polls(t *testing.T, name, session string) (at []int64) {
	t.Helper()
	script := regexp.MustCompile(`"EVAL" |"EVALSHA" `)
	poll := regexp.MustCompile(`"EVAL" "-- lock/poll |"EVALSHA" "` + scripts.LockPoll.SHA1)
	life := regexp.MustCompile(`"HSET" "` + regexp.QuoteMeta(locktest.Keys(name).HeartbeatsKey()) + `" "` + session + `" "(\d{16})`)
	c.mu.Lock()
	defer c.mu.Unlock()
	polls := false // whether the commands are those of a poll: they follow it
	for _, release := range c.mu.lines {
		if script.MatchString(release) {
			polls = poll.MatchString(release)
		}
		if wrote := life.FindStringSubmatch(release); polls && wrote != nil {
			at = append(at, locktest.Integer(t, wrote[1])-3_000_000)
		}
	}
	return at
}
