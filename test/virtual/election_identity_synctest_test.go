// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
)

// callbacks runs a candidate until the returned function is called, and counts the leaders that it learns of.
func (f *fixture) callbacks(s *signalbox.Session, leaders *[]string, mu *sync.Mutex) (e *election.Election, stop func()) {
	e = election.New(s, "a")
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.RunCallbacks(ctx, election.Callbacks{
			OnStartedLeading: func(ctx context.Context) { <-ctx.Done() },
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				mu.Lock()
				defer mu.Unlock()
				*leaders = append(*leaders, identity)
			},
		})
	}()
	return e, func() {
		cancel()
		<-ended
	}
}

// Candidates that all have one label are different leaders: each change is reported, and Leading says which of them leads.
func TestNewLeadersOfOneLabelAreDifferent(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			const candidates = 4
			var mu sync.Mutex
			leaders := make([][]string, candidates)
			want := make([]string, candidates)
			all := make([]*election.Election, candidates)
			stops := make([]func(), candidates)
			for i := range candidates {
				want[i] = fmt.Sprint("candidate ", i)
				if same {
					want[i] = "api"
				}
				s, _, closeAll := f.session(f.T, signalbox.WithLabel(want[i]))
				defer closeAll()
				all[i], stops[i] = f.callbacks(s, &leaders[i], &mu)
				require.False(f, i > 0 && election.New(s, "a").Leading())
				time.Sleep(100 * time.Millisecond)
				require.Equal(f, i == 0, election.New(s, "a").Leading()) // another Election of the session
			}
			for i := range candidates {
				time.Sleep(5 * time.Second)
				for j := range candidates {
					require.Equal(f, i == j, all[j].Leading())
				}
				mu.Lock()
				for j := i; j < candidates; j++ {
					require.Equal(f, want[:i+1], leaders[j])
				}
				mu.Unlock()
				stops[i]()
				require.False(f, all[i].Leading())
			}
		})
	}
}

// A zero Election, a closed session and a lost term lead nothing.
func TestLeadingEndsWithTheTerm(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		require.False(f, (*election.Election)(nil).Leading())
		require.False(f, new(election.Election).Leading())
		s, link, closeAll := f.session(f.T)
		defer closeAll()
		e := election.New(s, "a")
		require.False(f, e.Leading())
		term, err := e.Campaign(f.Context())
		require.NoError(f, err)
		require.True(f, e.Leading())
		link.goSilent()
		time.Sleep(time.Until(term.Deadline()))
		require.False(f, e.Leading())
		require.ErrorIs(f, term.Resign(), signalbox.ErrLost)
		link.heal()
		time.Sleep(time.Minute)
		term, err = e.Campaign(f.Context())
		require.NoError(f, err)
		require.True(f, e.Leading())
		require.NoError(f, term.Resign())
		require.False(f, e.Leading())
	})
}

// A leader whose right is taken away for a moment learns of the next leaders.
func TestOnNewLeaderIsCalledAfterADenial(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		var denied atomic.Bool
		f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
			if denied.Load() && strings.HasPrefix(command, "EVAL") {
				c.WriteError("NOPERM User limited has no permissions to run the 'evalsha' command")
				return true
			}
			return false
		})
		var mu sync.Mutex
		var leaders []string
		first, _, closeFirst := f.session(f.T, signalbox.WithLabel("first"))
		defer closeFirst()
		_, stop := f.callbacks(first, &leaders, &mu)
		time.Sleep(3 * time.Second)
		denied.Store(true)
		time.Sleep(1500 * time.Millisecond)
		denied.Store(false)
		time.Sleep(2 * time.Second)
		second, _, closeSecond := f.session(f.T, signalbox.WithLabel("second"))
		defer closeSecond()
		led := make(chan struct{})
		go func() {
			defer close(led)
			term, err := election.New(second, "a").Campaign(f.Context())
			if err != nil {
				f.Error(err)
				return
			}
			time.Sleep(3 * time.Second)
			_ = term.Resign()
		}()
		time.Sleep(time.Second)
		require.NoError(f, fair.New(second, "a").ForceUnlock(f.Context()))
		<-led
		time.Sleep(3 * time.Second)
		stop()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(f, []string{"first", "second", "first"}, leaders)
	})
}

// An observer never sees a leader before the value that the leader begins with, and sees each that lasts.
func TestObserversSeeALeaderWithItsValue(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 3 * time.Millisecond, 200 * time.Millisecond} {
		bubble(t, func(f *fixture) {
			const candidates = 10
			ctx, cancel := context.WithCancel(f.Context())
			var seen []string
			observer, link, closeObserver := f.session(f.T)
			defer closeObserver()
			link.latency.Store(int64(latency / 10))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for l, err := range election.New(observer, "a").Observe(ctx) {
					switch {
					case err != nil, l == election.Leader{}:
					case l.Value != l.Label:
						f.Errorf("the leader %q has the value %q", l.Label, l.Value)
					default:
						seen = append(seen, l.Value)
					}
				}
			}()
			var all sync.WaitGroup
			for i := range candidates {
				label := fmt.Sprint("candidate ", i)
				s, link, closeAll := f.session(f.T, signalbox.WithLabel(label))
				defer closeAll()
				link.latency.Store(int64(latency))
				all.Go(func() {
					term, err := election.New(s, "a", election.Value(label)).Campaign(f.Context())
					if err != nil {
						f.Error(err)
						return
					}
					time.Sleep(3 * time.Second)
					_ = term.Resign()
				})
			}
			all.Wait()
			synctest.Wait()
			cancel()
			<-ended
			require.Len(f, slices.Compact(seen), candidates)
		})
	}
}

// A leader whose value was lost is seen all the same, a poll later.
func TestObserversSeeALeaderWhoseValueWasLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		observer, _, closeObserver := f.session(f.T)
		defer closeObserver()
		_, err := election.New(s, "a", election.Value("x")).Campaign(f.Context())
		require.NoError(f, err)
		time.Sleep(time.Second)
		require.True(f, f.redis.Del("sb:{a}:leader"))
		began := time.Now()
		for l, err := range election.New(observer, "a").Observe(f.Context()) {
			require.NoError(f, err)
			require.Empty(f, l.Value)
			require.NotZero(f, l.Token)
			require.LessOrEqual(f, time.Since(began), 1200*time.Millisecond)
			break
		}
	})
}
