// SPDX-License-Identifier: Apache-2.0

package readme_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows the program as it is compiled.
func TestTheREADMEShowsTheProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("readme.go")
	require.NoError(t, err)

	_, shown, found := strings.Cut(string(readme), "\n```go\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	require.Contains(t, string(program), shown)
}
