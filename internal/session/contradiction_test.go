// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Two options that contradict each other are an error that names both. A default that a lock replaces is no error.
func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]session.OptionID{
		{session.RenewedLease, session.FixedLease}, {session.MaxHold, session.FixedLease}, {session.Redisson, session.SetNX},
	} {
		l := session.Defaults().Lock
		l.Give(pair[0])
		l.StartFor(session.Reentrant) // what is given so far is a default
		l.Give(pair[1])
		require.NoError(t, l.Check(session.Reentrant))
		l.Give(pair[0])
		require.ErrorIs(t, l.Check(session.Reentrant), errs.ErrBadOption)
		require.ErrorContains(t, l.Check(session.Reentrant), "contradict each other")
	}
}
