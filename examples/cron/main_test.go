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

// Each tick is done once, though one run fails.
func TestEachTickIsDoneOnce(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		output := strings.Join(lines, "\n")
		require.Len(t, regexp.MustCompile(`(?m)^process [1-5] did the tick$`).FindAllString(output, -1), ticks, output)
		require.Len(t, regexp.MustCompile(`(?m)^process [1-5] failed, the next process tries: the disk is full$`).FindAllString(output, -1), 1, output)
		require.Equal(t, "5 processes did each of 3 ticks once.", lines[len(lines)-1])
	})
}
