// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// crossServerLock is the locks "a" of one server and "b" of another as one: the sessions of the servers come in this order.
type crossServerLock struct {
	*redlockServers

	faults   [2]*requestFault
	sessions [2]*signalbox.Session
}

// crossServerBubble runs a test in virtual time, with a kind of fault before each of the servers, and scripts and time known.
func crossServerBubble(t *testing.T, kinds [2]redistest.FaultKind, test func(c *crossServerLock)) {
	t.Helper()
	bubbleOf(t, 2, func(r *redlockServers) {
		c := &crossServerLock{redlockServers: r}
		for c.sessions[0] == nil || c.sessions[0].ID() > c.sessions[1].ID() { // sessions are taken in the order of their ids
			for i := range c.sessions {
				c.faults[i] = newRequestFault(kinds[i])
				s, _, end := r.servers[i].requestFaultSession(c.faults[i])
				r.ends, c.sessions[i] = append(r.ends, end), s
			}
		}
		r.mustRelease(c.both())
		test(c)
	})
}

// both returns the two locks as one.
func (c *crossServerLock) both() *multilock.Lock {
	return multilock.New(reentrant.New(c.sessions[0], "a"), reentrant.New(c.sessions[1], "b"))
}

// other returns the lock of one of the servers, as another process has it.
func (c *crossServerLock) other(server int) *reentrant.Lock {
	s, _, end := c.servers[server].session(c.T)
	c.ends = append(c.ends, end)
	return reentrant.New(s, []string{"a", "b"}[server])
}

// mustRelease acquires a multilock that is free, and releases it.
func (r *redlockServers) mustRelease(l *multilock.Lock) {
	r.Helper()
	lease, err := l.Lock(r.Context())
	require.NoError(r, err)
	require.NoError(r, lease.Unlock())
	time.Sleep(time.Second)
}

// requireFree fails the test if a member is held.
func requireFree(t *testing.T, l *multilock.Lock) {
	t.Helper()
	lease, err := l.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
}
