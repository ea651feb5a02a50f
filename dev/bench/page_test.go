// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func printed(t *testing.T, name string, tables ...table) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, writeBlock(&text, name, tables))
	return text.String()
}

func aTable(figure string) table {
	return table{title: "Title", header: []string{"name", "ops/s"}, rows: [][]string{{"signalbox", figure}}}
}

func TestARunRenewsTheBlocksOfItsWorks(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	old := "# Page\n" + printed(t, "held", aTable("1")) + "\nText.\n" + printed(t, "latch", aTable("2")) + printed(t, "java", aTable("3")) + "\nEnd.\n"
	require.NoError(t, os.WriteFile(page, []byte(old), 0o600))

	leftOut := printed(t, "java", table{title: "Title", note: "Left out."})
	run := printed(t, "held", aTable("10"), aTable("11")) + leftOut
	require.NoError(t, renew(page, strings.NewReader(run)))
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(old, printed(t, "held", aTable("1")), printed(t, "held", aTable("10"), aTable("11")), 1), string(got))
}

func TestAWorkWithoutABlockInThePageIsAnError(t *testing.T) {
	t.Parallel()
	_, err := renewed("# Page\n", printed(t, "held", aTable("1")))
	require.ErrorContains(t, err, `"held"`)
}

// The results have a block for each work and one for the machine, and no other.
func TestTheResultsHaveABlockForEveryWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("results.txt")
	require.NoError(t, err)
	var names []string
	for _, found := range blocks().FindAllStringSubmatch(string(page), -1) {
		names = append(names, found[1])
	}
	require.ElementsMatch(t, append(workNames(), machineBlock), names)
	require.Equal(t, len(names), strings.Count(string(page), "\n<!-- end -->\n"))
}

func TestNotesAreWrapped(t *testing.T) {
	t.Parallel()
	words := strings.TrimSpace(strings.Repeat("word ", 50))
	lines := strings.Split(wrapped(words), "\n")
	require.Len(t, lines, 3)
	require.Len(t, lines[0], 119)
	require.Equal(t, words, strings.Join(lines, " "))
}
