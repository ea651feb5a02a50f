// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailuresMarkTheTestOrPanic(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "no 1", func() { reporter{}.failf("no %d", 1) })
	p := &Proxy{}
	require.Panics(t, func() { p.Arm(Fault{}) })
	p.counter.mu.requests = 3
	require.Panics(t, func() { p.Arm(Fault{Kind: CutAfterReply, At: 3}) })
	require.NotPanics(t, func() { p.Arm(Fault{Kind: CutAfterReply, At: 4}) })
}
