// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// The second pay comes after a holder with a greater token has written, and changes nothing.
func TestALaterHolderIsNotOverwritten(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{"the order is paid", "the order is refunded"}, lines)
	})
}
