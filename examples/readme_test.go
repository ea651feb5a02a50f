// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows the program as it is compiled and run.
func TestTheREADMEShowsTheProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("basic/main.go")
	require.NoError(t, err)

	_, shown, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	_, cut, found := strings.Cut(string(program), "// README:begin.\n")
	require.True(t, found)
	cut, _, _ = strings.Cut(cut, "\n// README:end.")
	require.Equal(t, cut, shown)
}
