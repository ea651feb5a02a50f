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
func (w *fixture) callbacks(s *signalbox.Session, leaders *[]string, mu *sync.Mutex) (e *election.Election, stop func()) {
	e = election.New(s, "a")
	ctx, cancel := context.WithCancel(w.Context())
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
		bubble(t, func(w *fixture) {
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
				s, _, closeAll := w.session(w.T, signalbox.WithLabel(want[i]))
				defer closeAll()
				all[i], stops[i] = w.callbacks(s, &leaders[i], &mu)
				require.False(w, i > 0 && election.New(s, "a").Leading())
				time.Sleep(100 * time.Millisecond)
				require.Equal(w, i == 0, election.New(s, "a").Leading()) // another Election of the session
			}
			for i := range candidates {
				time.Sleep(5 * time.Second)
				for j := range candidates {
					require.Equal(w, i == j, all[j].Leading())
				}
				mu.Lock()
				for j := i; j < candidates; j++ {
					require.Equal(w, want[:i+1], leaders[j])
				}
				mu.Unlock()
				stops[i]()
				require.False(w, all[i].Leading())
			}
		})
	}
}

// A zero Election, a closed session and a lost term lead nothing.
func TestLeadingEndsWithTheTerm(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		require.False(w, (*election.Election)(nil).Leading())
		require.False(w, new(election.Election).Leading())
		s, link, closeAll := w.session(w.T)
		defer closeAll()
		e := election.New(s, "a")
		require.False(w, e.Leading())
		term, err := e.Campaign(w.Context())
		require.NoError(w, err)
		require.True(w, e.Leading())
		link.goSilent()
		time.Sleep(time.Until(term.Deadline()))
		require.False(w, e.Leading())
		require.ErrorIs(w, term.Resign(), signalbox.ErrLost)
		link.heal()
		time.Sleep(time.Minute)
		term, err = e.Campaign(w.Context())
		require.NoError(w, err)
		require.True(w, e.Leading())
		require.NoError(w, term.Resign())
		require.False(w, e.Leading())
	})
}

// A leader whose right is taken away for a moment learns of the next leaders.
func TestOnNewLeaderIsCalledAfterADenial(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		var denied atomic.Bool
		w.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
			if denied.Load() && strings.HasPrefix(command, "EVAL") {
				c.WriteError("NOPERM User limited has no permissions to run the 'evalsha' command")
				return true
			}
			return false
		})
		var mu sync.Mutex
		var leaders []string
		first, _, closeFirst := w.session(w.T, signalbox.WithLabel("first"))
		defer closeFirst()
		_, stop := w.callbacks(first, &leaders, &mu)
		time.Sleep(3 * time.Second)
		denied.Store(true)
		time.Sleep(1500 * time.Millisecond)
		denied.Store(false)
		time.Sleep(2 * time.Second)
		second, _, closeSecond := w.session(w.T, signalbox.WithLabel("second"))
		defer closeSecond()
		led := make(chan struct{})
		go func() {
			defer close(led)
			term, err := election.New(second, "a").Campaign(w.Context())
			if err != nil {
				w.Error(err)
				return
			}
			time.Sleep(3 * time.Second)
			_ = term.Resign()
		}()
		time.Sleep(time.Second)
		require.NoError(w, fair.New(second, "a").ForceUnlock(w.Context()))
		<-led
		time.Sleep(3 * time.Second)
		stop()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(w, []string{"first", "second", "first"}, leaders)
	})
}

// An observer never sees a leader before the value that the leader begins with, and sees each that lasts.
func TestObserversSeeALeaderWithItsValue(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 3 * time.Millisecond, 200 * time.Millisecond} {
		bubble(t, func(w *fixture) {
			const candidates = 10
			ctx, cancel := context.WithCancel(w.Context())
			var seen []string
			observer, link, closeObserver := w.session(w.T)
			defer closeObserver()
			link.latency.Store(int64(latency / 10))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for l, err := range election.New(observer, "a").Observe(ctx) {
					switch {
					case err != nil, l == election.Leader{}:
					case l.Value != l.Label:
						w.Errorf("the leader %q has the value %q", l.Label, l.Value)
					default:
						seen = append(seen, l.Value)
					}
				}
			}()
			var all sync.WaitGroup
			for i := range candidates {
				label := fmt.Sprint("candidate ", i)
				s, link, closeAll := w.session(w.T, signalbox.WithLabel(label))
				defer closeAll()
				link.latency.Store(int64(latency))
				all.Go(func() {
					term, err := election.New(s, "a", election.Value(label)).Campaign(w.Context())
					if err != nil {
						w.Error(err)
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
			require.Len(w, slices.Compact(seen), candidates)
		})
	}
}

// A leader whose value was lost is seen all the same, a poll later.
func TestObserversSeeALeaderWhoseValueWasLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T)
		defer closeAll()
		observer, _, closeObserver := w.session(w.T)
		defer closeObserver()
		_, err := election.New(s, "a", election.Value("x")).Campaign(w.Context())
		require.NoError(w, err)
		time.Sleep(time.Second)
		require.True(w, w.redis.Del("sb:{a}:leader"))
		began := time.Now()
		for l, err := range election.New(observer, "a").Observe(w.Context()) {
			require.NoError(w, err)
			require.Empty(w, l.Value)
			require.NotZero(w, l.Token)
			require.LessOrEqual(w, time.Since(began), 1200*time.Millisecond)
			break
		}
	})
}
