// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fault that was mended stays shown: a test that is moved or renamed takes its row with it, and one that is removed leaves its row
// to what shows the fault now.
func TestFaultsAreShown(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("faults.txt")
	require.NoError(t, err)
	testsOf := make(map[string]string) // by folder
	cases := make(map[string]bool)
	for _, of := range dataFiles() {
		for _, c := range of {
			cases[c.name()] = true
		}
	}
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, row, 4, "a row is: mend, commit, folder, test: %q", line)
		folder, test := row[2], row[3]
		if testsOf[folder] == "" {
			files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				testsOf[folder] += string(text)
			}
		}
		assert.True(t, cases[test] || strings.Contains(testsOf[folder], "func "+test+"("), "%s has no %s, which shows: %s", folder, test, row[0])
	}
}
