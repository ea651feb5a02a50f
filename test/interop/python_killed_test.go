// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// sessionsOf returns the sessions whose tickets wait for a lock, the first in the queue first.
func sessionsOf(t *testing.T, server *redistest.Server, queue string) (sessions []string) {
	t.Helper()
	tickets, _ := server.MustDo(t, "ZRANGE", queue, 0, -1).([]any)
	for _, ticket := range tickets {
		sessions = append(sessions, fmt.Sprint(ticket)[:22])
	}
	return sessions
}

// P6: Python processes that are killed while they wait delay no other: the release grants the lock to the waiter in Go behind
// them, in the same step.
func TestKilledPythonWaitersDelayNobody(t *testing.T) {
	t.Parallel()
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t)
	held, err := reentrant.New(locktest.Session(t, server), "a").Lock(locktest.Context(t))
	require.NoError(t, err)
	waiters := make([]*redistest.Process, redistest.Rounds(2, 20))
	for i := range waiters {
		waiters[i] = startPython(t, server.Addr(), folder, "hold", "a", "30")
	}
	redistest.AwaitFor(t, time.Minute, "Python waits", func() bool { return locktest.Tickets(t, server, "a") == len(waiters) })
	dead := sessionsOf(t, server, "sb:{a}:line")
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
	server, folder := redistest.Start(t), scriptFolder(t)
	session := locktest.Session(t, server)
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			name := "h" + strconv.Itoa(i)
			lock := fair.New(session, name)
			if i%2 == 0 {
				killHolder(t, server, lock, startPython(t, server.Addr(), folder, "hold", name, "1"), name)
				return
			}
			before := locktest.Must(t, lock.Lock)
			holder := startPython(t, server.Addr(), folder, "hold", name, "1")
			redistest.AwaitFor(t, time.Minute, "Python waits", func() bool { return locktest.Tickets(t, server, name) == 1 })
			require.NoError(t, before.Unlock())
			killHolder(t, server, lock, holder, name)
		})
	}
}

// killHolder kills a Python process that is granted a lock, and lets Go wait for it.
func killHolder(t *testing.T, server *redistest.Server, lock *fair.Lock, holder *redistest.Process, name string) {
	t.Helper()
	says(t, holder)
	taken := locktest.Later(func() (signalbox.Lease, error) { return lock.Lock(locktest.Context(t)) })
	redistest.Await(t, "Go waits", func() bool { return locktest.Tickets(t, server, name) == 1 })
	holder.Kill()
	end := ends(t, server, locktest.Key(name)) - 15_000 // a key that is marked outlives its hold
	lease := locktest.MustHave(t, taken)
	granted := (int64(lease.Token()/4) + 1_735_689_600_000_000) / 1000
	require.GreaterOrEqual(t, granted, end-1, "granted before the lease had ended")
	require.Less(t, granted, end+10_000, "granted when the key ended, and not when the lease did")
	require.NoError(t, lease.Unlock())
}
