// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each line that the kept list of mutants names is in its file, with what the mutant replaces at its column. A mutant whose line
// is gone tests nothing; tools/mutate/mutants.txt has to follow a line that changes.
func TestEachMutantIsOfALineThatIsThere(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile(filepath.Join(root, "tools/mutate/mutants.txt"))
	require.NoError(t, err)
	lines := make(map[string]map[string]bool) // by file, without the space around them
	for row := range strings.Lines(string(list)) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		fields := strings.SplitN(strings.TrimSuffix(row, "\n"), "\t", 7)
		require.Len(t, fields, 7, "%q", row)
		file, replaced, text := fields[0], fields[4], fields[6]
		column, err := strconv.Atoi(fields[2])
		require.NoError(t, err, "%q", row)
		if lines[file] == nil {
			lines[file] = make(map[string]bool)
			source, err := os.ReadFile(filepath.Join(root, file))
			assert.NoError(t, err, "%q", row)
			for line := range strings.Lines(string(source)) {
				lines[file][strings.TrimSpace(line)] = true
			}
		}
		assert.True(t, lines[file][text], "%s has no such line any more: %q", file, text)
		assert.True(t, column >= 1 && column <= len(text) && strings.HasPrefix(text[column-1:], replaced), "%q has no %q at column %d", text, replaced, column)
	}
}
