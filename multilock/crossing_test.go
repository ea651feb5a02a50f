// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// crossing is locks of two sessions on two servers, in the order in which a first round comes to them, with a wire before
// each of the servers.
type crossing struct {
	servers  [2]*redistest.Server
	sessions [2]*signalbox.Session
	proxy    *redistest.Proxy // before the first
	behind   *redistest.Proxy // before the second
}

// newCrossing answers one whose first session is made by open.
func newCrossing(t *testing.T, open func(tb testing.TB, at wire) *signalbox.Session) *crossing {
	t.Helper()
	c := &crossing{servers: [2]*redistest.Server{redistest.Start(t), redistest.Start(t)}}
	c.proxy = redistest.NewProxy(t, c.servers[0].Addr())
	c.behind = redistest.NewProxy(t, c.servers[1].Addr())
	other := newSession(t, c.behind)
	for c.sessions[0] == nil || c.sessions[0].ID() > other.ID() { // sessions are taken in the order of their ids
		c.sessions[0] = open(t, c.proxy)
	}
	c.sessions[1] = other
	return c
}

// acquires counts what takes a lock.
func acquires(req []string) bool {
	return len(req) > 1 && strings.EqualFold(req[0], "EVALSHA") && req[1] == scripts.ReentrantAcquire.SHA1
}

// usual is newSession without options.
func usual(tb testing.TB, at wire) *signalbox.Session {
	tb.Helper()
	return newSession(tb, at)
}

// both answers a lock of each server as one.
func (c *crossing) both() *multilock.Lock {
	return multilock.New(reentrant.New(c.sessions[0], "a"), reentrant.New(c.sessions[1], "b"))
}

// A context that ends while a round is given back is the error, and not what ended the round.
func TestAContextThatEndsBetweenTwoRoundsIsTheError(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, impatient)
	require.NoError(t, mustLock(t, c.both()).Unlock()) // scripts and time are known
	theirs := mustLock(t, reentrant.New(newSession(t, c.servers[1]), "b"))
	c.proxy.ResetCount()
	release := c.proxy.Arm(redistest.Fault{Kind: redistest.SwallowReply, At: 2}) // the first is the acquire
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	waiting := allLater(ctx, c.both())
	within(t, "the release of the round's first member", release.Fired())
	ended := errors.New("the caller has gone")
	cancel(ended)
	got := within(t, "the answer", waiting)
	require.ErrorIs(t, got.err, ended)
	require.ErrorIs(t, got.err, context.Canceled)
	require.ErrorIs(t, got.err, signalbox.ErrHeld)
	require.ErrorContains(t, got.err, `"b"`)
	require.NotContains(t, got.err.Error(), "round")
	require.NoError(t, theirs.Unlock())
}

// P10: what the server said of a member is in the error, also where the wait that followed ended before it was answered.
func TestAMemberThatWasHeldIsSaidToBeThoughTheWaitForItIsNotAnswered(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, impatient)
	require.NoError(t, mustLock(t, c.both()).Unlock()) // scripts and time are known
	theirs := mustLock(t, reentrant.New(newSession(t, c.servers[1]), "b"))
	c.behind.SetMatch(acquires)
	c.behind.ResetCount()
	wait := c.behind.Arm(redistest.Fault{Kind: redistest.SwallowRequest, At: 2}) // the first is the try
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	release := c.proxy.Arm(redistest.Fault{Kind: redistest.SwallowReply, At: c.proxy.Requests() + 2}) // the first is the acquire
	waiting := allLater(ctx, c.both())
	within(t, "the wait", wait.Fired())
	within(t, "the release of the round's first member", release.Fired())
	cancel(errors.New("the caller has gone"))
	got := within(t, "the answer", waiting)
	require.ErrorIs(t, got.err, context.Canceled)
	require.ErrorIs(t, got.err, signalbox.ErrHeld)
	require.ErrorContains(t, got.err, `"b"`)
	require.NoError(t, theirs.Unlock())
}

// No order exists over two servers. A round that did not get the members of a session begins the next with these, and holds
// nothing while it waits for them.
func TestTheNextRoundBeginsWithWhatWasNotToBeHad(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, usual)
	require.NoError(t, mustLock(t, c.both()).Unlock())
	theirs := mustLock(t, reentrant.New(newSession(t, c.servers[1]), "b"))
	c.proxy.SetMatch(acquires)
	c.proxy.ResetCount()
	waiting := allLater(soon(t), c.both())
	view := []lock{reentrant.New(newSession(t, c.servers[0]), "a")}
	await(t, "the first round", func() bool { return c.proxy.Requests() == 1 })
	await(t, "its end", func() bool { return len(held(t, view)) == 0 })
	within(t, "a second, in which there were many rounds", time.NewTimer(time.Second).C)
	require.Equal(t, 1, c.proxy.Requests(), "it was taken again, while the other could not be had")
	require.NoError(t, theirs.Unlock())
	got := within(t, "the lease", waiting)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
}

// P4: a server that does not answer keeps none of the others' members.
func TestAServerThatDoesNotAnswerKeepsTheOthersMembersFromNobody(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, usual)
	lease := mustLock(t, c.both())
	c.servers[1].Freeze()
	err := lease.Unlock()
	require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	require.ErrorContains(t, err, `"b"`)
	require.NotContains(t, err.Error(), `"a"`)
	require.Empty(t, held(t, []lock{reentrant.New(newSession(t, c.servers[0]), "a")}))
	c.servers[1].Thaw()
	awaitFree(t, []lock{reentrant.New(newSession(t, c.servers[1]), "b")}, c.sessions[:]...)
}
