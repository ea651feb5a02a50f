// SPDX-License-Identifier: Apache-2.0

package locker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locker"
)

// P10: what waiting may mend is waited for.
func TestALockerWaitsForWhatMayPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{refusals: []error{errFull, errFull, fmt.Errorf("a few words: %w", errFull)}}
		k := locker.New(t.Context(), f.take)
		began := time.Now()
		k.Lock()
		require.Len(t, f.asked, 4)
		require.Equal(t, 750*time.Millisecond, time.Since(began))
		k.Unlock()
	})
}
