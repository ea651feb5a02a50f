// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestTransfersKeepTheSum(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"4 tellers made 100 transfers",
			"the accounts have 300 together",
			"a late teller is refused: a later holder has booked",
			"the accounts have 300 together",
		}, lines)
	})
}
