// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestTheNextProcessLeads(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"requests go to the next leader, with a greater token: true",
			"the leader gets SIGTERM",
			"requests go to the next leader, with a greater token: true",
			"the leader is killed",
			"requests go to the next leader, with a greater token: true",
			"the leader gets SIGTERM",
			"no process leads",
		}, lines)
	})
}
