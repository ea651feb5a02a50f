// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// Close sends waiters away, also those who wait for a server, and leaves the round to the others.
func TestCloseSendsWaitersAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	theirs := countdown.New(other, "a").RoundOf(r.ID())
	waiting := []<-chan error{listening(t, s, r, "a"), waitLater(soon(t), r)}
	elsewhere := listening(t, other, theirs, "a")
	require.NoError(t, s.Close(t.Context()))
	for _, w := range waiting {
		require.ErrorIs(t, within(t, "the end of a wait", w), signalbox.ErrClosed)
	}
	require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrClosed)
	mustCount(t, theirs, 0, "x")
	require.NoError(t, within(t, "the opening", elsewhere))
}

// A count-down that waits for a server is sent away by Close as well.
func TestCloseEndsAStepThatWaitsForTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	server.Kill()
	counted := make(chan error, 1)
	go func() {
		_, err := r.CountDown(t.Context(), "x")
		counted <- err
	}()
	pause := time.NewTimer(50 * time.Millisecond)
	<-pause.C
	require.True(t, isSilent(counted))
	_ = s.Close(endedContext())
	require.ErrorIs(t, within(t, "the end of the count-down", counted), signalbox.ErrClosed)
}

// P7: however many wait, there is one look a second, one subscription, and no goroutine but theirs; and nothing when
// they have gone.
func TestManyWaitersCostWhatOneDoes(t *testing.T) { //nolint:paralleltest // looks at all goroutines
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	waiting := []<-chan error{listening(t, s, r, "a")}
	one := goroutines()
	for range 999 {
		waiting = append(waiting, waitLater(soon(t), r))
	}
	await(t, "all wait", func() bool { return parked() == len(waiting) })
	await(t, "no goroutine beside the callers", func() bool { return goroutines() <= one+2 }) // but for those of a look
	require.Equal(t, []any{latchKey("a") + ":ended", int64(1)}, server.MustDo(t, "PUBSUB", "NUMSUB", latchKey("a")+":ended"))
	channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS", latchKey("a")+"*").([]any)
	require.Len(t, channels, 1)
	began := time.Now()
	sent := sentBy(server, func() { within(t, "two seconds", time.NewTimer(2*time.Second).C) })
	require.LessOrEqual(t, sent["evalsha"]+sent["eval"], 4+2*int64(time.Since(began)/time.Second), "looks")
	mustCount(t, r, 0, "x")
	for _, w := range waiting {
		require.NoError(t, within(t, "the opening", w))
	}
	awaitSilence(t, server, s)
	require.Empty(t, sentBy(server, func() { within(t, "a second", time.NewTimer(time.Second).C) }))
}

// goroutines answers those of the library, without those that wait for a round.
func goroutines() int {
	n := 0
	for _, stack := range stacks() {
		if strings.Contains(stack, "signalbox/internal/") && !strings.Contains(stack, "redistest") && !strings.Contains(stack, "(*Latch).wait(") {
			n++
		}
	}
	return n
}

// parked answers how many goroutines wait for a round.
func parked() int {
	n := 0
	for _, stack := range stacks() {
		if strings.Contains(stack, "(*Latch).wait(") {
			n++
		}
	}
	return n
}

func stacks() []string {
	all := make([]byte, 1<<23)
	return strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n")
}
