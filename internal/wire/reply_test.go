// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/stamp"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

const noon stamp.Stamp = 1_780_000_000_000_000

func TestAReplyIsReadByPlace(t *testing.T) {
	t.Parallel()
	reply := wiretest.Outcome([]any{1, noon.Text(), "short", -7}).Reply
	require.Equal(t, 4, reply.Len())
	require.Equal(t, int64(1), reply.Int(0))
	require.Equal(t, noon, reply.Stamp(1))
	require.Equal(t, "short", reply.Text(2))
	require.Equal(t, int64(-7), reply.Int(3))
}

func TestWhatIsNotThereReadsAsZero(t *testing.T) {
	t.Parallel()
	for _, returned := range []any{[]any{}, []any{1, "text"}, 1, "text"} {
		reply := wiretest.Outcome(returned).Reply
		require.Zero(t, reply.Int(9))
		require.Empty(t, reply.Text(9))
		require.Zero(t, reply.Stamp(9))
	}
	reply := wiretest.Outcome([]any{1, "text"}).Reply
	require.Zero(t, reply.Int(1), "a text is no integer")
	require.Empty(t, reply.Text(0), "an integer is no text")
	require.Zero(t, reply.Stamp(1))
}

func TestABareReplyIsAnArrayOfOne(t *testing.T) {
	t.Parallel()
	reply := wiretest.Outcome(noon.Text()).Reply
	require.Equal(t, 1, reply.Len())
	require.Equal(t, noon, reply.Stamp(0))
	require.Zero(t, reply.Int(0))
}

func TestTheServersTimeIsKnownFromItsLastAnswer(t *testing.T) {
	t.Parallel()
	var c wire.ServerClock
	require.False(t, c.Known())
	now := clock.At(time.Hour, time.Now())
	c.Told(noon, now)
	require.True(t, c.Known())
	require.Equal(t, noon+3_000_000, c.NotAfter(now, 3*time.Second))
	later := clock.At(time.Hour+time.Minute, time.Now().Add(-time.Hour)) // somebody set the wall clock back
	require.Equal(t, noon+60_000_000, c.NotAfter(later, 0))
	c.Told(noon-5_000_000, later)
	require.Equal(t, noon-5_000_000, c.NotAfter(later, 0), "the last answer wins, also one that is behind")
}
