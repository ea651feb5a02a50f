// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// reads makes an owner that is neither Java nor Go hold the lock as a reader, and returns the key of its
// hold.
func reads(t *testing.T, server *redistest.Server, name string, life time.Duration) (timeout string) {
	t.Helper()
	const owner = "00000000-0000-0000-0000-000000000000:1"
	timeout = timeoutOf(name, owner, "1")
	server.MustDo(t, "SET", timeout, "1", "PX", life.Milliseconds())
	server.MustDo(t, "HSET", name, "mode", "read", owner, "1")
	server.MustDo(t, "PEXPIRE", name, life.Milliseconds())
	return timeout
}

// P1, P2: what another reader counts on is cut short by a Java reader beside it, but never to less than the watchdog's time.
func TestJavasWatchdogMakesTheHashEndSooner(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newMortal(t, release, server)
		other := reads(t, server, "x", time.Hour)
		p.must(t, "a", "rw.lock", "x", "read", -1)
		redistest.Await(t, "a renewal", func() bool { return ttl(t, server, "x") <= watchdog })
		if release == "redisson3" { // which renews all
			require.LessOrEqual(t, ttl(t, server, other), watchdog)
		} else {
			require.Greater(t, ttl(t, server, other), watchdog)
		}
		p.dies(t)
		awaitEnd(t, server, "x")
		require.Equal(t, "true", newPeer(t, release, server).must(t, "a", "rw.try", "x", "write", 0, 60_000))
	})
}

// P1: a reader in Go whose lease is no longer than that is safe beside a reader that dies: no writer enters
// before the Go lease has ended.
func TestAShortLeaseEndsBeforeAWriterEnters(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newMortal(t, release, server)
		lease, err := rwlock.New(newSession(t, server), "x", signalbox.WithFixedLease(watchdog)).RLock(locktest.Context(t))
		require.NoError(t, err)
		p.must(t, "a", "rw.lock", "x", "read", -1)
		renewed(t, server, timeoutOf("x", p.owner(t, "a"), "1"))
		p.dies(t)
		w := newGoSide(t, server, byWriting)
		took(t, w.take("x"))
		require.Error(t, lease.Err())
		w.release(t, "x")
	})
}
