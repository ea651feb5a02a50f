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
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P2, P6: a server that comes back empty serves all who waited, readers and writers, none beside a writer, and the
// holder is told; also where it was away for longer than anybody counts as living.
func TestARestartedServerServesAllWhoWaited(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"AtOnce": false, "Away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld(t).restarts(t, name, away)
		})
	}
}

func (w *world) restarts(t *testing.T, name string, away bool) { //nolint:revive // a case, no mode
	t.Helper()
	const sessions, each = 6, 4
	held := takes(t, locktest.Writer(), w.holder, name, signalbox.RenewedLease(6*time.Second))
	notes := w.book(t, name)
	served := make(chan error, sessions*each)
	for i := range sessions {
		s := locktest.Session(t, w.server)
		side, mode := locktest.Writer(), "w"
		if i%2 == 0 {
			side, mode = locktest.Reader(), "r"
		}
		for j := range each {
			u := user{s, strconv.Itoa(j), mode}
			go func() {
				_, err := notes.turn(long(t), u, side.New(s, name, own()))
				served <- err
			}()
		}
	}
	w.waiting(t, name, sessions*each)
	if away {
		w.server.Kill()
		redistest.Receive(t, "the holder is told", held.Done())
	}
	w.server.Restart()
	for range sessions * each {
		require.NoError(t, <-served)
	}
	redistest.Receive(t, "the holder is told", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	a := notes.mustBeTrue(t)
	require.EqualValues(t, sessions/2*each, a.writes)
	require.EqualValues(t, sessions/2*each, a.reads)
	w.nothingLeft(t)
}

// P1, P6, P10: a server that is made to forget its scripts, or that ends everybody's subscription, all the time, lets
// nobody in beside a writer, and everybody goes on.
func TestAllGoOnThoughTheServerIsDisturbed(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"ScriptsForgotten":    {"SCRIPT", "FLUSH"},
		"SubscriptionsKilled": {"CLIENT", "KILL", "TYPE", "pubsub"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.server.Client(t, locktest.Steady)
			ctx, cancel := context.WithCancel(long(t))
			var disturber sync.WaitGroup
			disturber.Go(func() {
				again := time.NewTicker(2 * time.Millisecond)
				defer again.Stop()
				for ctx.Err() == nil {
					if err := client.Do(context.Background(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
						t.Error(err)
						return
					}
					<-again.C
				}
			})
			notes := w.book(t, name)
			w.turns(t, notes, 6, 20)
			cancel()
			disturber.Wait()
			a := notes.mustBeTrue(t)
			require.Zero(t, a.strangers)
			w.nothingLeft(t)
		})
	}
}

// turns lets users, every third of whom writes, have so many turns each, all in sessions of their own.
func (w *world) turns(t *testing.T, notes *book, users, turns int) {
	t.Helper()
	all := make([]user, users)
	for i := range all {
		all[i] = user{locktest.Session(t, w.server), "", map[bool]string{true: "w", false: "r"}[i%3 == 0]}
	}
	locktest.Together(t, users, func(i int) error {
		side := map[string]locktest.Primitive{"w": locktest.Writer(), "r": locktest.Reader()}[all[i].mode]
		for range turns {
			if _, err := notes.turn(long(t), all[i], side.New(all[i].session, notes.name)); err != nil {
				return err
			}
		}
		return nil
	})
}
