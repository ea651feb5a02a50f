// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The lock in the layout of Redisson, as far as Go alone can test it. test/interop has the Java client on
// the other side.

// Redisson keeps no queue for its RLock and its RFencedLock: a call that would list it says so, and sends nothing.
func TestWaitersOfASharedLockAreABadOption(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for name, mu := range map[string]*reentrant.Lock{
		"RLock":       reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout())),
		"RFencedLock": reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout(redisson.Fenced))),
	} {
		n := 0
		for w, err := range mu.Waiters(t.Context()) {
			require.ErrorIs(t, err, signalbox.ErrBadOption, name)
			require.ErrorContains(t, err, "has no queue at the server", name)
			require.Zero(t, w, name)
			n++
		}
		require.Equal(t, 1, n, name)
	}
}
