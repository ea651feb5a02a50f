// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/*.txt")

// Each promise is tried with some kinds, and each kind is tried for some promises: the grid has how many rows of Kinds of each package a
// promise is tried with, and those that are tried on real servers, too, have a star.
func TestThePromisesHaveKinds(t *testing.T) {
	t.Parallel()
	var folders []string
	for _, k := range Kinds() {
		if !slices.Contains(folders, k.folder()) {
			folders = append(folders, k.folder())
		}
	}
	grid := fmt.Sprintf("%-56s", "promise")
	for _, f := range folders {
		grid += fmt.Sprintf("%10s", f)
	}
	all := make(map[string]int)
	for _, p := range Promises() {
		row, tried := p.Name, 0
		if p.Only != virtual {
			row += " *"
		}
		row = fmt.Sprintf("%-56s", row)
		for _, f := range folders {
			n := 0
			for _, k := range Kinds() {
				if k.folder() == f && p.reason(k) == "" {
					n++
				}
			}
			all[f] += n
			tried += n
			row += fmt.Sprintf("%10d", n)
		}
		require.Positive(t, tried, "%s is tried with no kind", p.Name)
		grid += "\n" + row
	}
	grid += fmt.Sprintf("\n%-56s", "cells")
	for _, f := range folders {
		require.Positive(t, all[f], "%s is tried for no promise", f)
		grid += fmt.Sprintf("%10d", all[f])
	}
	if testing.Verbose() {
		fmt.Println(grid + "\n")
	}
}

// Each package of a kind has a row, which begins with its name. Those of shards are members of a group, and no holders of a name.
func TestEachKindHasARow(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/*.go")
	require.NoError(t, err)
	rows, found := make(map[string]bool), 0
	for _, k := range Kinds() {
		first, _, _ := strings.Cut(k.Name, " ")
		rows[first] = true
	}
	for _, file := range files {
		kind := filepath.Base(filepath.Dir(file))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.Contains(string(text), "\nfunc New(") || kind == "signalboxtest" {
			continue
		}
		found++
		assert.True(t, rows[kind], "test/suite/kinds_test.go: no row begins with %q", kind)
	}
	require.Positive(t, found)
}
