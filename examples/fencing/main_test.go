// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestLateWriterIsRefused(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"the slow writer has the lock, checks its lease, and is paused",
			"the quick writer has written",
			"the slow writer is refused: a later holder has written",
			"the order is: new, paid",
		}, lines)
	})
}
