// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestRequestForALockedOrderGets423(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Len(t, lines, 5)
		require.Equal(t, []string{
			"second request: 423 Locked, Retry-After 1: host a works on this order",
			"first request: 204 No Content",
			"the second one again: 204 No Content",
		}, lines[:3])
		require.Regexp(t, `^a request whose lock was broken: 503 Service Unavailable, Retry-After 1: not shipped: `, lines[3])
		require.Equal(t, "a client has left, and the lock is free", lines[4])
	})
}
