// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// movingAddress is one address that means a primary, and means its replica after a failover. Connections that were made
// before it stay where they are.
type movingAddress struct {
	*redistest.Proxy

	old, next *redistest.Server
}

func startAddress(t *testing.T) *movingAddress {
	t.Helper()
	a := &movingAddress{old: redistest.Start(t), next: redistest.Start(t)}
	replicate(t, a.next, a.old)
	a.Proxy = redistest.NewProxy(t, a.old.Addr())
	return a
}

// replicate makes a server the replica of another, with all of its data.
func replicate(t *testing.T, replica, primary *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica.MustDo(t, "REPLICAOF", host, port)
	redistest.Await(t, "a link to the primary", func() bool {
		info, _ := replica.MustDo(t, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
}

// failOver promotes the replica, and lets the former primary serve as before.
func (a *movingAddress) failOver(t *testing.T) {
	t.Helper()
	a.old.AwaitCopied(t, a.next)
	a.next.MustDo(t, "REPLICAOF", "NO", "ONE")
	a.SwitchTo(a.next.Addr())
}

// demote makes the former primary follow the promoted replica.
func (a *movingAddress) demote(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(a.next.Addr())
	require.NoError(t, err)
	a.old.MustDo(t, "REPLICAOF", host, port)
}

// P10: a demoted primary keeps its connections. The clients leave it: calls, leases, elections and messages continue at
// the server that the address means.
func TestADemotedPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	a := startAddress(t)
	holder, waiter, leader := locktest.Session(t, a), locktest.Session(t, a), locktest.Session(t, a)
	held, err := reentrant.New(holder, "held", signalbox.WithRenewedLease(failoverLease)).Lock(t.Context())
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		lease, err := reentrant.New(waiter, "held").Lock(t.Context())
		if err == nil {
			err = lease.Unlock()
		}
		got <- err
	}()
	redistest.Await(t, "a ticket", func() bool { return len(a.old.Keys("sb:*:queue")) > 0 })
	a.failOver(t)
	a.demote(t)

	lease, err := reentrant.New(holder, "other").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	ctx, cancel := context.WithCancel(t.Context())
	err = election.New(leader, "leader").Run(ctx, func(context.Context, election.Term) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock())
	require.NoError(t, redistest.Receive(t, "the waiter", got))
	redistest.Await(t, "no connection of a client at the demoted primary", func() bool { return clients(t, a.old) == 0 })
}

// clients returns how many clients of the test's sessions a server has.
func clients(t *testing.T, s *redistest.Server) int {
	t.Helper()
	n := 0
	for _, kind := range []string{"normal", "pubsub"} {
		list, _ := s.MustDo(t, "CLIENT", "LIST", "TYPE", kind).(string)
		for line := range strings.Lines(list) {
			if !strings.Contains(line, "cmd=client") {
				n++
			}
		}
	}
	return n
}

// P10: nor does a client stay with a former primary that refuses nothing.
func TestAFormerPrimaryThatStillServesIsLeft(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "connections end by their age, in seconds")
	a := startAddress(t)
	s := locktest.Session(t, a)
	held, err := reentrant.New(s, "held", signalbox.WithRenewedLease(failoverLease)).Lock(t.Context())
	require.NoError(t, err)
	redistest.Await(t, "a subscription", func() bool {
		list, _ := a.old.MustDo(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)
		return list != ""
	})
	a.failOver(t)
	begun := time.Now()
	redistest.Await(t, "no connection of a client at the former primary", func() bool { return clients(t, a.old) == 0 })
	redistest.AwaitFor(t, 2*failoverLease, "the end of the lease, unless it is renewed", func() bool { return time.Since(begun) > failoverLease+time.Second })
	require.NoError(t, held.Err())
	require.Len(t, a.next.Keys("sb:*:lock"), 1)
	require.NoError(t, held.Unlock())
}

// P10: a list is never one of a demoted primary, which would yield old names without a refusal.
func TestAListLeavesADemotedPrimary(t *testing.T) {
	t.Parallel()
	a := startAddress(t)
	s, other := locktest.Session(t, a), locktest.Session(t, a.next)
	list := func(on *signalbox.Session) (names []string, err error) {
		for entry, err := range inspect.Names(t.Context(), on, "", inspect.FullSpeed()) {
			if err != nil {
				return nil, err
			}
			names = append(names, entry.Name)
		}
		return names, nil
	}
	_, err := list(other)
	require.ErrorIs(t, err, signalbox.ErrRefused, "of a replica")
	_, err = list(s)
	require.NoError(t, err)

	a.failOver(t)
	a.demote(t)
	a.old.MustDo(t, "REPLICAOF", "127.0.0.1", "1") // what it has will be old
	_, err = reentrant.New(other, "new").Lock(t.Context())
	require.NoError(t, err)
	names, err := list(s)
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, names)
}
