// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

const changelogFile = "../CHANGELOG.md"

// The changelog lists each script with its digest, in the section of the release that added it. The first list is
// that of the next release.
func TestTheChangelogHasTheDigestOfEachScript(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	file, err := os.ReadFile(changelogFile)
	require.NoError(t, err)
	const opens, closes = "```text\n", "```\n"
	before, rest, found := strings.Cut(string(file), opens)
	require.True(t, found, "it has no list")
	listed, released, found := strings.Cut(rest, closes)
	require.True(t, found, "the list has no end")

	var added strings.Builder
	for _, s := range all {
		if queue := fmt.Sprintf("%s  %s v%d\n", s.SHA1, s.Name, s.Version); !strings.Contains(released, queue) {
			added.WriteString(queue)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(changelogFile, []byte(before+opens+added.String()+closes+released), 0o644))
		return
	}
	require.Equal(t, added.String(), listed, "go test ./scripts -run %s -update renews the list", t.Name())
}
