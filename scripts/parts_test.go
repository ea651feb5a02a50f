// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// partText is a part as it stands in a script: between two comments that name it.
var partText = regexp.MustCompile(`(?ms)^-- part ([a-z/]+)\n.*?^-- end ([a-z/]+)\n`)

// The server has no way to import one script into another. What several share is written in parts/,
// and stands in each of them to the byte. -update, which go generate runs, puts it there.
func TestAScriptHasItsPartsAsTheyAre(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	used := make(map[string]bool)
	for _, s := range all {
		composed := partText.ReplaceAllStringFunc(s.Source, func(found string) string {
			names := partText.FindStringSubmatch(found)
			require.Equal(t, names[1], names[2], "%s: a part ends as another", s.Name)
			used[names[1]] = true
			text, err := os.ReadFile("parts/" + names[1] + ".lua")
			require.NoError(t, err, s.Name)
			return fmt.Sprintf("-- part %s\n%s-- end %s\n", names[1], text, names[1])
		})
		if *update && composed != s.Source {
			require.NoError(t, os.WriteFile(fmt.Sprintf("%s.v%d.lua", s.Name, s.Version), []byte(composed), 0o644))
			continue
		}
		require.Equal(t, composed, s.Source, "%s is not what its parts are: go generate ./scripts", s.Name)
		require.Equal(t, strings.Count(s.Source, "-- part "), len(partText.FindAllString(s.Source, -1)), "%s: a part without an end", s.Name)
	}
	files, err := filepath.Glob("parts/*/*.lua")
	require.NoError(t, err)
	for _, file := range files {
		require.True(t, used[strings.TrimSuffix(strings.TrimPrefix(file, "parts/"), ".lua")], "%s is used by no script", file)
	}
}
