// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// counter is the key of the tokens of the lock "a".
const counter = "redisson_lock_token:{a}"

// fenced returns the lock "a" of a session of its own, as RFencedLock has it.
func fenced(t *testing.T, to clients, options ...signalbox.LockOption) *reentrant.Lock {
	t.Helper()
	return reentrant.New(locktest.Session(t, to), "a", append(options, signalbox.WithLayout(redisson.Layout(redisson.Fenced)))...)
}

func TestJavaReturnsTheCounterAsTokenOfAnyHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		server.MustDo(t, "SET", counter, "41")
		require.Equal(t, "42", p.must(t, "a", "fence-try", "a", 0, 60_000))
		require.Equal(t, "null", p.must(t, "b", "fence-try", "a", 0, 60_000))
		require.Equal(t, "42", p.must(t, "b", "fence-token", "a"), "who does not get it counts nothing")
		p.must(t, "a", "unlock", "a")
		require.Equal(t, "42", p.must(t, "a", "fence-token", "a"), "for any caller and any holder")
	})
}

// P3: one sequence of tokens without a gap, whichever side takes the lock.
func TestJavaAndGoHaveOneSequenceOfTokens(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, mu := newPeer(t, release, server), fenced(t, server)
		for token := uint64(1); token < 50; token += 2 {
			lease, err := mu.Lock(locktest.Context(t))
			require.NoError(t, err)
			require.Equal(t, token, lease.Token())
			require.Equal(t, strconv.FormatUint(token, 10), p.must(t, "a", "fence-token", "a"))
			require.Equal(t, "null", p.must(t, "a", "fence-try", "a", 0, 60_000))
			taken := p.send("a", "fence", "a", 60_000)
			awaitListeners(t, server, "a", 1)
			require.NoError(t, lease.Unlock())
			require.Equal(t, strconv.FormatUint(token+1, 10), p.take(t, taken))
			p.must(t, "a", "unlock", "a")
		}
		p.must(t, "a", "lock", "a", 60_000)
		require.Equal(t, "50", server.MustDo(t, "GET", counter), "who takes it without a token does not count")
		require.Equal(t, int64(-1), server.MustDo(t, "PTTL", counter), "it never ends")
	})
}

// P3: the holder after a holder that died has a greater token, on either side.
func TestTokensRiseAfterADeath(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, mu := newMortal(t, release, server), fenced(t, server, signalbox.WithRenewedLease(5*time.Second))
		require.Equal(t, "1", p.must(t, "a", "fence", "a", -1))
		p.dies(t)
		lease, err := mu.Lock(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, uint64(2), lease.Token())
		require.NoError(t, lease.Unlock())

		other := fenced(t, server, signalbox.WithFixedLease(time.Second))
		lost, err := other.Lock(locktest.Context(t))
		require.NoError(t, err)
		redistest.Receive(t, "the end of the lease", lost.Done())
		q := newPeer(t, release, server)
		require.Equal(t, strconv.FormatUint(lost.Token()+1, 10), q.must(t, "a", "fence", "a", 60_000))
	})
}
