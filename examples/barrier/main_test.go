// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestPhasesBeginTogether(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"phase 1: all 4 workers continue",
			"worker 0 dies in phase 2, and is started again: true",
			"phase 2: all 4 workers continue",
			"phase 3: all 4 workers continue",
			"a barrier is broken, and the party that waits gets an error",
		}, lines)
	})
}
