// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestLateConsumerIsRefused(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"2 consumers own [32 32] of 64 partitions",
			"message 1 of all 64 partitions is handled",
			"3 consumers own [21 21 22] of 64 partitions",
			"message 2 of all 64 partitions is handled",
			"the first consumer ends",
			"2 consumers own [32 32] of 64 partitions",
			"message 3 of all 64 partitions is handled",
			"a write of the first consumer that comes late is refused: a later owner has written",
		}, lines)
	})
}
