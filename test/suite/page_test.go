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

var update = flag.Bool("update", false, "write docs/reliability.md and testdata/*.txt")

// The table of docs/reliability.md is that of Promises and Kinds.
func TestThePageHasTheTable(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/reliability.md", "<!-- written by go test ./suite -update: begin -->\n", "<!-- end -->"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), begin)
	require.True(t, found, "no %q", begin)
	got, after, found := strings.Cut(rest, end)
	require.True(t, found, "no %q", end)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table()+end+after), 0o600))
		return
	}
	require.Equal(t, table(), got, "cd test && go test ./suite -run %s -update", t.Name())
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

// table returns the promises in Markdown, with the kinds that do not make each of them.
func table() string {
	var b strings.Builder
	b.WriteString("| promise | what is tried | on real servers too | kinds that do not promise it |\n|---|---|---|---|\n")
	for _, p := range Promises() {
		number, tried, _ := strings.Cut(p.Name, "/")
		onServers := "yes"
		if p.Only == virtual {
			onServers = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", number, tried, onServers, p.without())
	}
	return b.String()
}

// without returns the kinds that do not make the promise, by reason. If they are most of all kinds, the reason stands alone.
func (p Promise) without() string {
	var reasons []string
	kinds := make(map[string][]string)
	for _, k := range Kinds() {
		why := p.reason(k)
		if why == "" {
			continue
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		kinds[why] = append(kinds[why], k.Name)
	}
	for i, why := range reasons {
		if len(kinds[why]) <= len(Kinds())/2 {
			reasons[i] = strings.Join(kinds[why], ", ") + ": " + why
		}
	}
	return strings.Join(reasons, "; ")
}
