// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// P4, P5: whichever way a wire fails, an acquire that is given up then leaves nothing, and a lock that is released then is free
// soon after. Package virtual shows it for every request of every kind of lock.
func TestCallThatFailsOnAWireLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, fault := range redistest.FaultKinds() {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			client := locktest.Steady
			switch fault { //nolint:exhaustive // the others need no time
			case redistest.SwallowRequest, redistest.SwallowReply, redistest.HalfOpen:
				client = impatient
				fallthrough
			case redistest.CutBeforeRequest:
				redistest.Slow(t, "the client gives a silent connection up after a second, and a request may come late for three")
			}
			f := newFixture(t)
			f.callUnderFault(t, fault, f.link(t, locktest.RunsScript(scripts.LockEnter), client), func(l faultySession, faulted <-chan struct{}) uint64 {
				ctx, cancel := context.WithCancel(locktest.Context(t))
				defer cancel()
				acquired := locktest.LaterWith(ctx, reentrant.New(l.session, "a").Lock)
				redistest.Receive(t, "the fault happens", faulted)
				cancel()
				got := redistest.Receive(t, "the call returns", acquired)
				if got.Err != nil {
					require.ErrorIs(t, got.Err, context.Canceled)
					return 0
				}
				require.NoError(t, locktest.IgnoreUnconfirmed(got.Value.Unlock()))
				return got.Value.Token()
			})
			f.callUnderFault(t, fault, f.link(t, locktest.RunsScript(scripts.LockLeave), client), func(l faultySession, faulted <-chan struct{}) uint64 {
				lease := locktest.Must(t, reentrant.New(l.session, "a").Lock)
				require.NoError(t, locktest.IgnoreUnconfirmed(lease.Unlock()))
				redistest.Receive(t, "the fault happens", faulted)
				return lease.Token()
			})
			f.view.NoImmortals(t)
		})
	}
}

// callUnderFault runs a call while a request on its wire has a fault, and checks that nothing is left of it. The call returns the last
// token that it had.
func (f *fixture) callUnderFault(t *testing.T, fault redistest.FaultKind, through faultySession, call func(l faultySession, faulted <-chan struct{}) uint64) {
	t.Helper()
	last := call(through, through.proxy.Arm(redistest.Fault{Kind: fault, Delay: 30 * time.Millisecond}).Fired())
	redistest.Await(t, "nothing is left", func() bool { return locktest.Undoing(through.session) == 0 && f.view.Free("a") })
	if fault == redistest.DelayRequest {
		redistest.Await(t, "the request that was delayed arrives", func() bool { return through.proxy.Replies() >= through.proxy.Requests() })
	}
	lease, err := reentrant.New(f.other, "a").TryLock(locktest.Context(t))
	require.NoError(t, err)
	require.Greater(t, lease.Token(), last)
	require.NoError(t, lease.Unlock())
}
