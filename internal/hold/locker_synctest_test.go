// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/hold"
)

// P10: what waiting may mend is logged once and waited for.
func TestLockerRetriesTransientErrors(t *testing.T) {
	t.Parallel()
	refusals := []error{errFull}
	for _, s := range sentinels() {
		if s.passes {
			refusals = append(refusals, s.err)
		}
	}
	for _, refusal := range refusals {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			f := &fakeAcquirer{refusals: []error{refusal, refusal, fmt.Errorf("a few words: %w", refusal)}}
			l := hold.NewSyncLocker(t.Context(), func(err error) { fmt.Fprintln(&log, err) }, f.acquire)
			began := time.Now()
			l.Lock()
			require.Len(t, f.calls, 4)
			require.Equal(t, 750*time.Millisecond, time.Since(began))
			require.Equal(t, 1, strings.Count(log.String(), "\n"))
			require.Contains(t, log.String(), refusal.Error())
			l.Unlock()
			l.Lock()
			require.Equal(t, 1, strings.Count(log.String(), "\n"), "nothing failed")
			l.Unlock()
		})
	}
}
