// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page on the Java client names tests that there are.
func TestThePageNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redisson-protocol.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var sources strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		sources.Write(source)
	}
	for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(string(page), -1) {
		require.Contains(t, sources.String(), "func "+name+"(")
	}
}
