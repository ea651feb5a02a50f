// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// The keys of a large batch do not replace those of calls for one lock.
func TestBatchesDoNotReplaceRememberedKeys(t *testing.T) {
	t.Parallel()
	r := new(rights)
	lock := []string{"sb:{a}:lock", "sb:{a}:queue"}
	r.remember(lock)
	batch := make([]string, 100*maxRememberedKeys)
	for i := range batch {
		batch[i] = strconv.Itoa(i)
	}
	r.remember(batch)
	require.True(t, r.hasAll(lock))
}

// A call waits for the text of another call no longer than its own context lasts, and was not
// executed then.
func TestCallThatWaitsForATextEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var r Runner
	own, _ := r.inFlight.next(scripts.SessionHello.SHA1, nil)
	require.NotNil(t, own, "the first sends its text")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result := r.sendText(ctx, Call{Script: scripts.SessionHello, Keys: []string{"key"}})
	require.ErrorIs(t, result.Error(), context.Canceled)
	require.Equal(t, Final, Judge(result.Error()))
}
