// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// States: what the reply to a poll makes of attempts in every state.
func TestPoll_Reply_UpdatesAttempts(t *testing.T) {
	t.Parallel()
	const now = wire.Stamp(1780000000000000)
	u := newFixture(t).direct()
	u.stopTimers() // which would move them further
	for name, c := range map[string]struct {
		before attemptState
		ticket string
		has    bool   // the reply says that it has the lock
		number string // "" is not known, else the poll's own heartbeat
		want   attemptState
		first  bool
	}{
		"Queued":                {queued, "1", false, "", queued, false},
		"Gone":                  {queued, "0", false, "", ticketLost, false},
		"Granted":               {queued, "0", true, "its own", granted, false},
		"GrantedByThisPoll":     {queued, "1", true, "its own", granted, false},
		"GrantedSomehow":        {queued, "0", true, "", queued, true},
		"EnteringNotThere":      {entering, "0", false, "", entering, false},
		"EnteringGranted":       {entering, "0", true, "its own", granted, false},
		"GrantedMeanwhile":      {granted, "0", true, "its own", granted, false},
		"GoneMeanwhile":         {begun, "0", false, "", begun, false},
		"LostItsTicketBefore":   {ticketLost, "0", true, "its own", ticketLost, false},
		"OverAndNotYetReleased": {begun, "0", true, "", begun, false},
	} {
		a := u.q.newWaitingAttempt(lockRequest)
		u.mu.Lock()
		a.state, a.footprint.NotAfter = c.before, 1
		p := queuePoll{q: u.q, heartbeat: u.heartbeatLocked(timers.Now()), listed: []*Attempt{a}}
		u.mu.Unlock()
		grants, number := "", strings.Repeat("-", numberSize)
		if c.number != "" {
			number = p.heartbeat.number
		}
		if c.has {
			grants = a.id() + now.Text() + number
		}
		p.handleReply(redistest.Outcome([]any{1, 0, 0, grants, c.ticket, now.Text()}).Reply)
		u.mu.Lock()
		require.Equal(t, c.want, a.state, name)
		require.Equal(t, c.first, a.place == listedFirst, name)
		if c.want == granted && c.before != granted {
			require.Equal(t, Grant{Stamp: now, Last: now + wire.TokenBlock - 1, Life: p.heartbeat.life, Sent: p.heartbeat.sent, Read: a.grant.Read}, a.grant, name)
		}
		u.mu.Unlock()
		a.endWaiting()
		a.forget()
	}
}

// P2: a message that is no grant has no effect.
func TestMalformedMessageIsNoGrant(t *testing.T) {
	t.Parallel()
	u := newFixture(t).direct()
	a := u.q.newWaitingAttempt(lockRequest)
	u.mu.Lock()
	number := u.heartbeatLocked(timers.Now()).number
	u.mu.Unlock()
	listener := &grantListener{registry: u.Queues}
	good := a.id() + wire.Stamp(1780000000000000).Text() + number
	for _, message := range []string{
		"", "1", good[:len(good)-1], good + "1", a.id() + strings.Repeat("x", 16) + number, a.id() + strings.Repeat("0", 16) + number,
		strings.Repeat("x", len(good)),
	} {
		listener.OnMessage(message)
		u.mu.Lock()
		require.Equal(t, entering, a.state, message)
		u.mu.Unlock()
	}
	listener.OnMessage(good)
	u.mu.Lock()
	require.Equal(t, granted, a.state)
	u.mu.Unlock()
	require.True(t, a.endWaiting())
	a.forget()
}

// P2: a grant that is over before its goroutine runs begins no hold. A poll finds what there is.
func TestExpiredGrantIsPolledBeforeItBegins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, waiter := f.direct(), f.direct()
	held := holder.acquire()
	got := waiter.startWaiting(t.Context(), 1)
	a := waiter.awaitWaiting()
	waiter.mu.Lock()
	a.state = granted
	a.grant = Grant{Stamp: 1, Life: time.Second, Sent: timers.Now().Add(-2 * time.Second)}
	waiter.mu.Unlock()
	a.wake()
	await(t, "it waits again", func() bool {
		return a.currentState() == queued
	})
	require.Empty(t, got)
	holder.release(held)
	b := within(t, "the lock", got).mustHave(t)
	require.Same(t, a, b)
	require.Equal(t, a.ticket(), f.holder())
	waiter.release(b)
	f.awaitNothingLeft(holder, waiter)
}

// A step that the table does not have is refused in tests.
func TestAttempt_ImpossibleStep_IsRefused(t *testing.T) {
	t.Parallel()
	for _, a := range []*Attempt{{state: over}, {state: withdrawn}, {state: begun}} {
		require.Panics(t, func() { a.toLocked(granted) })
	}
}
