// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page shows code as it is compiled and run.
func TestThePageShowsTheTests(t *testing.T) {
	t.Parallel()
	var code string
	for _, file := range []string{"example_test.go", "shop_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code += string(text)
	}
	page, err := os.ReadFile("../docs/how-to/testing.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```go\n")[1:]
	require.Len(t, blocks, 9)
	for _, block := range blocks {
		block, _, closed := strings.Cut(block, "```\n")
		require.True(t, closed)
		require.True(t, strings.Contains(code, block), "not in the tests:\n%s", block)
	}
}
