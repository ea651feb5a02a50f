// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogsKeepTheirEnd(t *testing.T) {
	t.Parallel()
	var log tail
	for range 100 {
		n, err := log.Write([]byte(strings.Repeat("x", 1000) + "\n"))
		require.NoError(t, err)
		require.Equal(t, 1001, n)
	}
	_, err := log.Write([]byte("end"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(log.String(), "x\nend"))
	require.GreaterOrEqual(t, len(log.String()), tailSize)
	require.LessOrEqual(t, len(log.String()), 2*tailSize)

	var c requestCounter
	for range 5 * logSize {
		c.note("GET")
	}
	c.note("SET")
	require.Equal(t, "SET", c.mu.log[len(c.mu.log)-1])
	require.GreaterOrEqual(t, len(c.mu.log), logSize)
	require.LessOrEqual(t, len(c.mu.log), 2*logSize)
}

func TestFailuresMarkTheTestOrPanic(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "no 1", func() { reporter{}.failf("no %d", 1) })
	p := &Proxy{}
	require.Panics(t, func() { p.Arm(Fault{}) })
	p.counter.mu.requests = 3
	require.Panics(t, func() { p.Arm(Fault{Kind: CutAfterReply, At: 3}) })
	require.NotPanics(t, func() { p.Arm(Fault{Kind: CutAfterReply, At: 4}) })
}
