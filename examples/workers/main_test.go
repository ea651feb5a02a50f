// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestTerminatedWorkersFinishTheirJobs(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		output := strings.Join(lines, "\n")
		count := func(line string) int { return len(regexp.MustCompile(`(?m)^`+line+`$`).FindAllString(output, -1)) }
		begun := count(`worker [12]: job \d+ begins with [12] of 3 permits`)
		require.GreaterOrEqual(t, begun, 20, output)
		require.Equal(t, begun, count(`worker [12]: job \d+ is done`), output)
		require.Equal(t, 2, count(`worker [12] stops`), output)
		require.Equal(t, 2, count(`worker [12] has ended; its jobs are done, and its permits are free`), output)
		require.Equal(t, "3 of 3 permits are free", lines[len(lines)-1])
	})
}
