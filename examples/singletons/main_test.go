// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestPodsThatStandByTakeTheJobs(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a pod that was killed has to expire on the server")
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"5 pods run 3 of 3 jobs",
			"the pod that runs mailer gets SIGTERM",
			"4 pods run 3 of 3 jobs",
			"another pod runs mailer, with a greater token: true",
			"the pod that runs billing is killed",
			"3 pods run 3 of 3 jobs",
			"another pod runs billing, with a greater token: true",
			"the pod that runs cleanup gets SIGTERM",
			"2 pods run 2 of 3 jobs",
		}, lines)
	})
}
