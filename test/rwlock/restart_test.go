// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2, P6: a server that comes back empty serves all waiters, readers and writers, none beside a writer, and the holder is
// notified.
func TestRestartedServerServesAllWaiters(t *testing.T) {
	t.Parallel()
	const name, sessions, each = "restarted", 6, 4
	f := newFixture(t)
	held, err := locktest.Writer().New(f.holder, name).Lock(long(t))
	require.NoError(t, err)
	notes := f.openLog(t, name)
	served := make(chan error, sessions*each)
	for i := range sessions {
		s := locktest.Session(t, f.server)
		side, mode := locktest.Writer(), "w"
		if i%2 == 0 {
			side, mode = locktest.Reader(), "r"
		}
		for j := range each {
			u := lockUser{s, strconv.Itoa(j), mode}
			go func() {
				_, err := notes.turn(long(t), u, side.New(s, name, own()))
				served <- err
			}()
		}
	}
	redistest.AwaitFor(t, limit, "all wait", func() bool { return f.view.Waiting(name) == sessions*each })
	f.server.Restart()
	for range sessions * each {
		require.NoError(t, <-served)
	}
	redistest.Receive(t, "the holder is notified", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	a := notes.mustBeTrue(t)
	require.EqualValues(t, sessions/2*each, a.writes)
	require.EqualValues(t, sessions/2*each, a.reads)
	f.nothingLeft(t)
}

// P1, P10: a server forgets its scripts again and again. No two users overlap that must not, and every
// caller is served.
func TestAllAreServedThoughScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	const name, users, turns = "forgotten", 6, 10
	f := newFixture(t)
	notes, client := f.openLog(t, name), f.server.Client(t, locktest.Steady)
	ctx, cancel := context.WithCancel(long(t))
	var disturber sync.WaitGroup
	disturber.Go(func() {
		again := time.NewTicker(2 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			if err := client.Do(context.Background(), client.B().ScriptFlush().Build()).Error(); err != nil {
				t.Error(err)
				return
			}
			<-again.C
		}
	})
	all := make([]lockUser, users)
	for i := range all {
		all[i] = lockUser{locktest.Session(t, f.server), "", map[bool]string{true: "w", false: "r"}[i%3 == 0]}
	}
	locktest.Together(t, users, func(i int) error {
		lock := sideOf(all[i].mode).New(all[i].session, name)
		for range turns {
			if _, err := notes.turn(long(t), all[i], lock); err != nil {
				return err
			}
		}
		return nil
	})
	cancel()
	disturber.Wait()
	require.Zero(t, notes.mustBeTrue(t).intruders)
	f.nothingLeft(t)
}
