// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P4: only a request that had no reply can be executed later, and only until its not-after.
func TestFootprint_LateCopy_IsBoundedByTheNotAfter(t *testing.T) {
	t.Parallel()
	var f session.Footprint
	require.True(t, f.IsEmpty())
	f.Send(2_000_000)
	f.Send(1_000_000) // by a clock that was set back: a copy of the first may come later all the same
	require.True(t, f.IsEmpty(), "until there is a reply, its caller knows what was sent")
	require.Zero(t, f.ExecutableFor(0))
	f.Unknown = true
	require.False(t, f.IsEmpty())
	require.Equal(t, 1002*time.Millisecond, f.ExecutableFor(1_000_000))
	require.Equal(t, 2*time.Millisecond, f.ExecutableFor(2_000_000))
	require.Zero(t, f.ExecutableFor(2_000_001))
}

// P4: a leave may use the holder key alone only if the one request of the attempt had a reply, and a grant left no ticket.
func TestFootprint_HasNoTicket(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		footprint session.Footprint
		want      bool
	}{
		{session.Footprint{Sent: 1}, false},
		{session.Footprint{Sent: 1, Left: session.HoldLeft}, true},
		{session.Footprint{Sent: 1, Left: session.TicketLeft}, true},
		{session.Footprint{Sent: 1, Left: session.TicketBesideHold}, false},
		{session.Footprint{Sent: 1, Left: session.HoldLeft, Unknown: true}, false},
		{session.Footprint{Sent: 2, Left: session.HoldLeft}, false},
		{session.Footprint{Left: session.TicketLeft}, false},
	} {
		require.Equal(t, c.want, c.footprint.HasNoTicket(), c.footprint)
	}
	f := session.Footprint{Left: session.TicketBesideHold}
	f.Note(session.HoldLeft)
	require.Equal(t, session.TicketBesideHold, f.Left, "a later reply takes nothing away")
	require.NotZero(t, f.Undo(wire.Call{}, time.Second, time.Second).Until)
}
