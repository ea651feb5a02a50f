// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/gocron"
)

// Of five processes the leader alone runs jobs; when it dies, another one does, within its lease and a tick.
func TestTheLeaderAloneRunsJobs(t *testing.T) {
	t.Parallel()
	const processes, period = 5, time.Second
	bubble(t, func(w *world) {
		var mu sync.Mutex
		var runs []int
		stops := make([]func(), processes)
		for i := range processes {
			s := w.Session()
			elector := sbgocron.NewElector(s, "schedulers", signalbox.WithRenewedLease(5*time.Second))
			stop := w.schedule(gocron.CronJob("* * * * * *", true), func(context.Context) {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, i)
			}, gocron.WithDistributedElector(elector))
			stops[i] = sync.OnceFunc(func() {
				stop()
				ends(s)
			})
			defer stops[i]()
		}
		leaders := make(map[int]bool)
		for range 3 {
			time.Sleep(100*period + period/2)
			mu.Lock()
			require.InDelta(w, 100, len(runs), 7)
			leader := runs[0]
			for _, i := range runs {
				require.Equal(w, leader, i)
			}
			runs = nil
			mu.Unlock()
			require.False(w, leaders[leader])
			leaders[leader] = true
			stops[leader]()
		}
	})
}

// Resign hands over at once, and nothing is wrong with one that is not the leader.
func TestResignHandsOver(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		first, second := sbgocron.NewElector(w.Session(), "a"), sbgocron.NewElector(w.Session(), "a")
		require.NoError(w, second.Resign())
		require.NoError(w, first.IsLeader(w.Context()))
		require.NoError(w, first.IsLeader(w.Context()))
		require.ErrorIs(w, second.IsLeader(w.Context()), signalbox.ErrHeld)
		require.NoError(w, first.Resign())
		require.NoError(w, second.IsLeader(w.Context()))
		require.ErrorIs(w, first.IsLeader(w.Context()), signalbox.ErrHeld)
		require.NoError(w, second.Resign())
		var unmade *sbgocron.Elector
		require.NoError(w, unmade.Resign())
		require.NoError(w, new(sbgocron.Elector).Resign())
		require.ErrorIs(w, unmade.IsLeader(w.Context()), signalbox.ErrBadOption)
		require.ErrorIs(w, new(sbgocron.Elector).IsLeader(w.Context()), signalbox.ErrBadOption)
		require.ErrorIs(w, sbgocron.NewElector(nil, "a").IsLeader(w.Context()), signalbox.ErrBadOption)
	})
}

// A hook that ends the goroutine of a request makes no process the leader, and the next call asks again.
func TestHookThatEndsTheRequestMakesNoLeader(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		calls := 0
		e := sbgocron.NewElector(w.Session(signalbox.WithObserver(signalbox.Observer{
			Acquired: func(ctx context.Context, _ signalbox.Event) context.Context {
				if calls++; calls == 1 {
					runtime.Goexit()
				}
				return ctx
			},
		})), "a")
		require.Error(w, e.IsLeader(w.Context()))
		require.NoError(w, e.IsLeader(w.Context()))
		require.NoError(w, e.Resign())
	})
}
