// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/bench/chart"
)

var update = flag.Bool("update", false, "draw docs/numbers.svg")

const picture = "../../docs/numbers.svg"

// The picture shows the figures of the page.
func TestThePictureIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/benchmarks.md")
	require.NoError(t, err)
	got, err := chart.Draw(string(page))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(picture, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "cd bench && go test ./chart -update draws it")
}

func TestATableThatCannotBeDrawnIsAnError(t *testing.T) {
	t.Parallel()
	const head = "\n## " + chart.Title + "\n\n| implementation | ops/s | p99 | least/most served |\n|---|---|---|---|\n"
	_, err := chart.Draw(head + "| a | 1,000 | 98.6 ms | 54/55 |\n")
	require.NoError(t, err)
	for page, want := range map[string]string{
		"":                                   "no section",
		head:                                 "no table",
		head + "| a | many | 1 ms | 1/2 |\n": "ops/s of a",
		head + "| a | 1 | long | 1/2 |\n":    "p99 of a",
		head + "| a | 1 | 1 ms | - |\n":      "least/most served of a",
		strings.Replace(head, "ops/s", "x", 1) + "| a | 1 | 1 ms | 1/2 |\n": "no column",
	} {
		_, err := chart.Draw(page)
		require.ErrorContains(t, err, want)
	}
}
