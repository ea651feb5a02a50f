// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/dev/bench/chart"
)

var update = flag.Bool("update", false, "draw docs/numbers.svg")

const picture = "../../../docs/numbers.svg"

// The picture shows the figures of the page.
func TestThePictureIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../results.txt")
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
	const header = "| implementation | ops/s | p99 | max | least/most served |\n|---|---|---|---|---|\n"
	page := func(table string) string {
		var all string
		for _, title := range chart.Titles() {
			all += "\n## " + title + "\n\n" + table
		}
		return all
	}
	_, err := chart.Draw(page(header + "| a | 1,000 | 98.6 ms | 2 s | 54/55 |\n"))
	require.NoError(t, err)
	_, err = chart.Draw("")
	require.ErrorContains(t, err, "no section")
	for table, want := range map[string]string{
		header: "no table",
		header + "| a | many | 1 ms | 1 s | 1/2 |\n":                                "ops/s of a",
		header + "| a | 1 | long | 1 s | 1/2 |\n":                                   "p99 of a",
		header + "| a | 1 | 1 ms | 1 s | - |\n":                                     "least/most served of a",
		strings.Replace(header, "ops/s", "x", 1) + "| a | 1 | 1 ms | 1 s | 1/2 |\n": "no column",
	} {
		_, err := chart.Draw(page(table))
		require.ErrorContains(t, err, want)
	}
}
