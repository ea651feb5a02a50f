// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the manual anew")

// The pages in man are those of the commands. After a change: go test . -run TestManual -update writes them.
func TestManualIsThatOfTheCommands(t *testing.T) {
	t.Parallel()
	const kept = "man"
	folder := t.TempDir()
	if *update {
		require.NoError(t, os.RemoveAll(kept))
		require.NoError(t, os.Mkdir(kept, 0o755))
		folder = kept
	}
	root := newRoot()
	undated(root)
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC) // of the first page; builds do not change it
	require.NoError(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: "signalbox", Manual: "signalbox"}, folder))
	require.Equal(t, pages(t, folder), pages(t, kept))
}

func undated(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		undated(sub)
	}
}

func pages(tb testing.TB, folder string) map[string]string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.1"))
	require.NoError(tb, err)
	require.NotEmpty(tb, files)
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(tb, err)
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}
