// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
)

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
