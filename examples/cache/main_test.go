// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestOneCallerFillsTheCache(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"stored by once: 100 callers, the source was asked 1 times, 0 callers got an error",
			"and again: 100 callers, the source was asked 0 times, 0 callers got an error",
			"forgotten, and the source fails once: 100 callers, the source was asked 2 times, 1 callers got an error",
			"in a cache of our own: 100 callers, the source was asked 1 times, 0 callers got an error",
		}, lines)
	})
}
