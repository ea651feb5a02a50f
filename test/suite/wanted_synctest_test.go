// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// learnsOfWaiter lets a holder learn that another process waits: by a message, and without messages by its next renewal. It keeps its lease, and a
// try of the other process changes nothing.
func learnsOfWaiter(w *World, k Kind) {
	terms := append(k.options(3*time.Second), signalbox.WithWanted())
	a, b := w.Process(k, terms...), w.Rival(k)
	for _, lost := range []bool{false, true} {
		name := map[bool]string{false: "told", true: "renewed"}[lost]
		lease, err := a.Lock(name).Lock(w.Context())
		require.NoError(w, err)
		w.Arrive()
		w.tryFails(b, name)
		a.LoseMessages(lost)
		waiting := w.Waits(w.Context(), b, name)
		select {
		case <-lease.(interface{ Wanted() <-chan struct{} }).Wanted():
		case <-time.After(5 * time.Second):
			require.Fail(w, "the holder does not learn of the waiter", name)
		}
		a.LoseMessages(false)
		require.NoError(w, lease.Err())
		require.Empty(w, waiting)
		require.NoError(w, lease.Unlock())
		w.Unlocks(w.Gets(waiting, time.Second))
	}
}
