// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
		require.Equal(t, "50", server.MustDo(t, "GET", counter))
		require.Equal(t, int64(-1), server.MustDo(t, "PTTL", counter), "it never ends")
	})
}

// P1, P3: under contention too every holder of either side has a number of its own, greater than all before it, and none is left out.
func TestTokensRiseOverBothSides(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, client := newPeer(t, release, server), server.Client(t, signalbox.Tune)
		const times = 50
		var threads []<-chan string
		failed := make(chan error, workers)
		for n := range workers {
			threads = append(threads, p.send(strconv.Itoa(n), "fence-work", "a", "tokens", times))
			mu := fenced(t, server)
			go func() { failed <- noteTokens(mu, client, times) }()
		}
		for _, thread := range threads {
			p.take(t, thread)
		}
		for range workers {
			require.NoError(t, <-failed)
		}
		tokens, _ := server.MustDo(t, "LRANGE", "tokens", 0, -1).([]any)
		require.Len(t, tokens, 2*workers*times)
		for i, token := range tokens {
			require.Equal(t, strconv.Itoa(i+1), token)
		}
	})
}

// noteTokens takes the lock many times, and writes down its token each time.
func noteTokens(mu *reentrant.Lock, client rueidis.Client, times int) error {
	for range times {
		err := mu.Do(context.Background(), func(ctx context.Context, lease signalbox.Lease) error {
			return client.Do(ctx, client.B().Rpush().Key("tokens").Element(fmt.Sprint(lease.Token())).Build()).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
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
