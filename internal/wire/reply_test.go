// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const noon wire.Stamp = 1_780_000_000_000_000

func TestReplyIsReadByIndex(t *testing.T) {
	t.Parallel()
	reply := redistest.Outcome([]any{1, noon.Text(), "short", -7}).Reply
	require.Equal(t, 4, reply.Len())
	require.Equal(t, int64(1), reply.Int(0))
	require.Equal(t, noon, reply.Stamp(1))
	require.Equal(t, "short", reply.Text(2))
	require.Equal(t, int64(-7), reply.Int(3))
}

func TestMissingElementReadsAsZero(t *testing.T) {
	t.Parallel()
	for _, returned := range []any{[]any{}, []any{1, "text"}, 1, "text"} {
		reply := redistest.Outcome(returned).Reply
		require.Zero(t, reply.Int(9))
		require.Empty(t, reply.Text(9))
		require.Zero(t, reply.Stamp(9))
	}
	reply := redistest.Outcome([]any{1, "text"}).Reply
	require.Zero(t, reply.Int(1), "a text is no integer")
	require.Empty(t, reply.Text(0), "an integer is no text")
	require.Zero(t, reply.Stamp(1))
}

func TestBareReplyIsAnArrayOfOne(t *testing.T) {
	t.Parallel()
	reply := redistest.Outcome(noon.Text()).Reply
	require.Equal(t, 1, reply.Len())
	require.Equal(t, noon, reply.Stamp(0))
	require.Zero(t, reply.Int(0))
}

func TestLoneStampStandsForDoneAndTwoStamps(t *testing.T) {
	t.Parallel()
	reply := redistest.Outcome(int64(noon)).Reply
	require.Equal(t, wire.Done, reply.Code())
	require.Equal(t, []wire.Stamp{noon, noon}, []wire.Stamp{reply.Stamp(1), reply.Stamp(2)})
	count := redistest.Outcome(1 << 30).Reply
	require.Equal(t, wire.Code(1<<30), count.Code(), "a count is no stamp")
	require.Zero(t, count.Stamp(1))
}

// P3: blocks of stamps that follow each other share no token, and a floor is behind none of its own.
func TestBlocksShareNoToken(t *testing.T) {
	t.Parallel()
	const noon wire.Stamp = 1_780_000_000_000_000 // a multiple of the longest block, and of a longer one
	last, lengths := uint64(0), map[wire.Stamp]bool{}
	for s := noon - 1024 + 1; s < noon+3*1024; {
		require.Greater(t, s.Token(), last)
		require.LessOrEqual(t, s.Token(), s.LastToken())
		end := s.BlockEnd()
		length := end - s + 1
		require.Zero(t, s%length)
		require.True(t, length == 1024 || s%(4*length) != 0, "%d would be longer", s)
		lengths[length] = true
		last = end.LastToken()
		require.Equal(t, end+1, wire.StampOf(last))
		s = end + 1
	}
	require.Len(t, lengths, 6, "each power of four up to the longest")
}

// P3: what an acquire reserves ends with the last token before the block that follows.
func TestReservedTokensEndBeforeTheNextBlock(t *testing.T) {
	t.Parallel()
	const stamp wire.Stamp = 1_780_000_000_000_001
	require.Equal(t, (stamp+wire.TokenBlock).Token()-1, stamp.ReservedEnd().LastToken())
}

// P3: a token is the server's time, in quarters of a microsecond since 2025-01-01.
func TestATokenIsTheServersTime(t *testing.T) {
	t.Parallel()
	since := noon - wire.Stamp(time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	require.Equal(t, 4*uint64(since), noon.Token())
	require.Less(t, noon.Token(), uint64(1)<<53)
}

func TestPartOfAMillisecondCountsAsOne(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Millisecond: "1", time.Millisecond + 1: "2", 2*time.Millisecond - 1: "2", time.Nanosecond: "1", 0: "0", 30 * time.Second: "30000", 24 * time.Hour: "86400000",
	} {
		require.Equal(t, want, wire.Milliseconds(d))
	}
}

var errAway = errors.New("the server is away")

// fixedPoller always returns the same last error.
type fixedPoller struct{ last error }

func (p fixedPoller) LastError() error { return p.last }

// The error of an ended context is joined with the last known reply.
func TestEndedWaitReturnsTheLastReply(t *testing.T) {
	t.Parallel()
	live := context.WithoutCancel(t.Context()) // the cases outlive this function
	ended, end := context.WithCancel(live)
	end()
	for name, c := range map[string]struct {
		known     func(*testing.T, *wire.LastReply)
		with, not error
	}{
		"Nothing": {func(*testing.T, *wire.LastReply) {}, context.Canceled, errs.ErrHeld},
		"Held":    {func(_ *testing.T, k *wire.LastReply) { k.RecordHeld() }, errs.ErrHeld, errAway},
		"Refused": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			k.RecordHeld()
			require.NoError(t, k.Record(live, errAway))
		}, errAway, errs.ErrHeld},
		"PollRefused": {func(_ *testing.T, k *wire.LastReply) {
			k.SetPoller(fixedPoller{errAway})
			k.RecordHeld()
		}, errAway, errs.ErrHeld},
		"PollReplied": {func(_ *testing.T, k *wire.LastReply) {
			k.SetPoller(fixedPoller{})
			k.RecordHeld()
		}, errs.ErrHeld, errAway},
		"RepliedSince": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			require.NoError(t, k.Record(live, errAway))
			require.NoError(t, k.Record(live, errs.ErrHeld))
		}, errs.ErrHeld, errAway},
		"CutShort": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			k.RecordHeld()
			require.ErrorIs(t, k.Record(ended, errAway), context.Canceled)
		}, errs.ErrHeld, errAway},
		"Nil": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			k.RecordHeld()
			require.NoError(t, k.Record(live, nil), "a try that came to nothing")
		}, context.Canceled, errs.ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var k wire.LastReply
			c.known(t, &k)
			err := k.Ended(ended)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, c.with)
			require.NotErrorIs(t, err, c.not)
		})
	}
}

// An error that waiting cannot clear ends the wait, and a reply that the lock is held resets the pauses.
func TestPermanentErrorEndsAWait(t *testing.T) {
	t.Parallel()
	var k wire.LastReply
	require.ErrorIs(t, k.Record(t.Context(), errs.ErrWrongKind), errs.ErrWrongKind)
	k.Failures = 3
	require.NoError(t, k.Record(t.Context(), errAway))
	require.Equal(t, 3, k.Failures)
	require.NoError(t, k.Record(t.Context(), errs.ErrHeld))
	require.Zero(t, k.Failures)
}

// clusterClient is a client of a cluster, as far as a runner asks it without a call.
type clusterClient struct{ rueidis.Client }

func (clusterClient) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func TestServerTimeIsKnownFromTheLastReply(t *testing.T) {
	t.Parallel()
	var c wire.ServerClock
	require.False(t, c.Known())
	now := timers.At(time.Hour, time.Now())
	c.Observe(1, noon, now)
	require.True(t, c.Known())
	require.Equal(t, noon+3_000_000, c.NotAfter(1, now, 3*time.Second))
	later := timers.At(time.Hour+time.Minute, time.Now().Add(-time.Hour)) // the wall clock was set back
	require.Equal(t, noon+60_000_000, c.NotAfter(1, later, 0))
	c.Observe(2, noon-5_000_000, later)
	require.Equal(t, noon-5_000_000, c.NotAfter(1, later, 0), "the last reply counts, also one that is behind")
}

// P4: in a cluster a slot uses the clock of its own node, whatever the replies of others contain meanwhile.
func TestCluster_EverySlotHasAClock(t *testing.T) {
	t.Parallel()
	c := wire.NewServerClock(wire.NewRunner(clusterClient{}))
	require.False(t, c.Known())
	const ahead = 60_000_000
	now := timers.At(time.Hour, time.Now())
	c.Observe(1, noon, now)
	require.Equal(t, noon, c.NotAfter(2, now, 0), "a guess, as long as there is nothing better")
	for range 3 {
		c.Observe(2, noon+ahead, now)
		require.Equal(t, noon, c.NotAfter(1, now, 0))
		require.Equal(t, noon+ahead, c.NotAfter(2, now, 0))
		c.Observe(1, noon, now)
		require.Equal(t, noon+ahead, c.NotAfter(2, now, 0))
	}
	c.Observe(2, noon, now)
	require.Equal(t, noon, c.NotAfter(2, now, 0), "the slot has moved, or the clock was set")
	c.Observe(1<<14-1, noon+1, now)
	require.Equal(t, noon+1, c.NotAfter(1<<14-1, now, 0))
}

// P4: several shards behind one endpoint have clocks of their own, which are kept apart once one reply shows that.
func TestShardsHaveClocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	var c wire.ServerClock
	const ahead = 60_000_000
	now := timers.At(time.Hour, time.Now())
	c.Observe(1, noon, now)
	c.Observe(2, noon+1_000, now) // a reply that was on its way for a millisecond less
	require.Equal(t, noon+1_000, c.NotAfter(1, now, 0), "one clock")
	c.Observe(3, noon+ahead, now)
	for range 3 {
		c.Observe(1, noon, now)
		require.Equal(t, noon, c.NotAfter(1, now, 0))
		require.Equal(t, noon+ahead, c.NotAfter(3, now, 0))
		c.Observe(3, noon+ahead, now)
		require.Equal(t, noon, c.NotAfter(1, now, 0))
		require.Equal(t, noon+ahead, c.NotAfter(4, now, 0), "a guess")
	}
}
