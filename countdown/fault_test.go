// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// requireRefusal checks that a count-down is tried for as long as its context allows, and returns the reason
// of the refusal.
func requireRefusal(t *testing.T, r countdown.Round, id, words string) {
	t.Helper()
	limit := 50 * time.Millisecond
	redistest.Await(t, "a refusal with a reply in time", func() bool {
		limit *= 2 // for a busy machine
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := r.CountDown(ctx, id)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return errors.Is(err, signalbox.ErrRefused) && strings.Contains(err.Error(), words)
	})
}

// P10: a server that is away or refuses is waited for by those who may: a wait and a count-down.
func TestAServerThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	waiting := listening(t, s, r)
	server.MustDo(t, "REPLICAOF", "127.0.0.1", "1") // READONLY, and without a primary
	requireRefusal(t, r, "x", "READONLY")
	counted := locktest.LaterWith(locktest.Context(t), func(ctx context.Context) (int, error) { return r.CountDown(ctx, "x") })
	require.Empty(t, waiting)
	server.MustDo(t, "REPLICAOF", "NO", "ONE")
	require.Zero(t, locktest.MustHave(t, counted))
	require.NoError(t, redistest.Receive(t, "the opening", waiting))
}

// P6, P10: a wait whose context ends returns why the server was not asked; a server that comes back empty has
// lost the round, and every caller gets that error.
func TestEndedWaitReturnsTheServersError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	waiting := listening(t, s, r)
	server.Kill()
	limit := 25 * time.Millisecond
	redistest.Await(t, "the server's absence", func() bool {
		limit *= 2 // for a busy machine
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err := r.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return strings.Contains(err.Error(), "connection refused")
	})
	require.Empty(t, waiting)
	server.Restart()
	require.ErrorIs(t, redistest.Receive(t, "the loss", waiting), signalbox.ErrRoundLost)
	_, err := r.CountDown(locktest.Context(t), "x")
	require.ErrorIs(t, err, signalbox.ErrRoundLost)
}

// P10: where memory is full no id is counted that is not the last one, which opens the round.
func TestTheLastCountDownNeedsNoMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 2)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	requireRefusal(t, r, "x", "OOM")
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	mustCount(t, r, 1, "x")
	waiting := listening(t, s, r)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	mustCount(t, r, 0, "y")
	require.NoError(t, redistest.Receive(t, "the opening", waiting))
}
