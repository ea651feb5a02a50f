// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1: move asks the leader to hand over, and prints the next leader.
func TestMoveChangesTheLeader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text, code := output(t, server.URL(), "move", "a")
	require.Equal(t, 1, code, text)
	ctx, cancel := context.WithCancel(locktest.Context(t))
	var ids []string
	ended := make(chan error, 2)
	led := make(chan error, 10)
	for range 2 {
		s := locktest.SteadySession(t, server)
		ids = append(ids, s.ID())
		e := election.New(s, "a")
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, _ election.Term) error {
				<-ctx.Done()
				led <- context.Cause(ctx)
				return nil
			})
		}()
		redistest.Await(t, "a candidate", func() bool {
			for w := range election.New(s, "a").Observe(ctx) {
				return w.Session == ids[0]
			}
			return false
		})
	}
	redistest.Await(t, "the other candidate", func() bool {
		for range fair.New(locktest.SteadySession(t, server), "a").Waiters(ctx) {
			return true
		}
		return false
	})
	text, code = output(t, server.URL(), "move", "-w", "20", "a", ids[1])
	require.Zero(t, code, text)
	require.Contains(t, text, ids[1])
	require.ErrorIs(t, <-led, election.ErrHandover)
	text, code = output(t, server.URL(), "move", "-w", "20", "a", ids[1])
	require.Equal(t, 1, code, text)
	cancel()
	<-ended
	<-ended
}
