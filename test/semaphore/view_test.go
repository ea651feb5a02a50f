// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// state returns, in one step, how many permits are held, the capacity, and how many waiters are queued.
const state = `
local time, out = redis.call('TIME'), 0
local now = time[1] .. string.sub('00000' .. time[2], -6)
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE')) do
  out = out + tonumber(string.sub(name, 42, 51))
end
return {out, tonumber(redis.call('ZSCORE', KEYS[1], 'capacity') or -1), redis.call('ZCARD', KEYS[2])}`

// permitView reads the state of a semaphore, over a connection without faults.
type permitView struct {
	client rueidis.Client
	name   string
}

func newView(tb testing.TB, server *redistest.Server, name string) *permitView {
	tb.Helper()
	return &permitView{server.Client(tb, func(o *rueidis.ClientOption) { o.DisableCache = true }), name}
}

func (v *permitView) eval(ctx context.Context) (out, capacity, waiting int64, err error) {
	keys := locktest.Keys(v.name)
	reply, err := v.client.Do(ctx, v.client.B().Eval().Script(state).Numkeys(2).Key(keys.Permits(), keys.PermitsQueue()).Build()).AsIntSlice()
	if err != nil {
		return 0, 0, 0, fmt.Errorf("view of %q: %w", v.name, err)
	}
	return reply[0], reply[1], reply[2], nil
}

func (v *permitView) held(tb testing.TB) int64 {
	tb.Helper()
	out, _, _, err := v.eval(context.Background())
	require.NoError(tb, err)
	return out
}

func (v *permitView) waiting(tb testing.TB) int64 {
	tb.Helper()
	_, _, waiting, err := v.eval(context.Background())
	require.NoError(tb, err)
	return waiting
}

// check reads the state repeatedly until stop is called, which returns the greatest number held and how
// often it was read.
func (v *permitView) check(tb testing.TB, capacity int64) (stop func() (most, checks int64)) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	var most, checks int64
	done.Go(func() {
		for ctx.Err() == nil {
			out, _, _, err := v.eval(ctx)
			if err != nil {
				continue // the server is away, or the check is over
			}
			checks++
			if most = max(most, out); out > capacity {
				tb.Errorf("%d are out of %d", out, capacity)
				return
			}
		}
	})
	return func() (int64, int64) {
		cancel()
		done.Wait()
		return most, checks
	}
}

// long is a context for a call that has to wait for what takes longer than usual.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// acquireLater acquires on another goroutine.
func acquireLater(t *testing.T, sem *semaphore.Semaphore, n int) <-chan locktest.Result[signalbox.Lease] {
	t.Helper()
	return locktest.LaterWith(long(t), func(ctx context.Context) (signalbox.Lease, error) { return sem.Acquire(ctx, n) })
}

// gets receives what an Acquire returned, which must be a lease.
func gets(t *testing.T, got <-chan locktest.Result[signalbox.Lease]) signalbox.Lease {
	t.Helper()
	lease := locktest.MustHave(t, got)
	require.NoError(t, lease.Err())
	return lease
}

func take(t *testing.T, sem *semaphore.Semaphore, n int) signalbox.Lease {
	t.Helper()
	lease, err := sem.Acquire(locktest.Context(t), n)
	require.NoError(t, err)
	return lease
}

// The environment of a child.
const urlEnv, capacityEnv, leaseEnv = "URL", "CAPACITY", "LEASE"

// children is the semaphore that they share.
const children = "shared"

func start(t *testing.T, server *redistest.Server, capacity int, lease time.Duration) *redistest.Process {
	t.Helper()
	p := redistest.Child(t, "workers", urlEnv+"="+server.URL(),
		fmt.Sprintf("%s=%d", capacityEnv, capacity), fmt.Sprintf("%s=%v", leaseEnv, lease))
	line, err := p.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, p.Stderr())
	require.Equal(t, "began", line) // who is stopped in the midst of a Dial fails
	return p
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runWorkers acquires and releases permits for ever, with several goroutines, most of which want one permit
// and hand it over. It writes lines with the tokens of uses, as many as are read, since no worker may keep
// permits while it writes.
func runWorkers(_ io.Reader, stdout io.Writer) {
	capacity, err := strconv.Atoi(os.Getenv(capacityEnv))
	must(err)
	lease, err := time.ParseDuration(os.Getenv(leaseEnv))
	must(err)
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv))
	must(err)
	fmt.Fprintln(stdout, "began")
	sem := semaphore.New(s, children, capacity, signalbox.WithRenewedLease(lease))
	had := make(chan uint64, 1)
	for i := range 8 {
		go func() {
			for {
				n := 1
				if i < 2 {
					n += rand.N(capacity)
				}
				lease, err := sem.Acquire(context.Background(), n)
				must(err)
				select {
				case had <- lease.Token():
				default:
				}
				_ = lease.Unlock() // lost if the process was stopped for long
			}
		}()
	}
	for token := range had {
		fmt.Fprintln(stdout, "has", token)
	}
}
