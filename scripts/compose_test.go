// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func TestAPartIsWrittenOnceForEachBlock(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("parts/queue/alive.lua")
	require.NoError(t, err)
	alive := scripts.Compose(string(text)) // it includes no part
	inner := strings.ReplaceAll("  "+strings.TrimSuffix(alive, "\n"), "\n", "\n  ") + "\n"
	for name, c := range map[string]struct{ source, want string }{
		"once":                {"-- include queue/alive\nx()\n-- include queue/alive\n", alive + "x()\n"},
		"indented":            {"if a then\n  -- include queue/alive\n\n  x()\nend\n", "if a then\n" + inner + "\n  x()\nend\n"},
		"known inside":        {"-- include queue/alive\nif a then\n  -- include queue/alive\nend\n", alive + "if a then\nend\n"},
		"not known behind":    {"if a then\n  -- include queue/alive\nend\n-- include queue/alive\n", "if a then\n" + inner + "end\n" + alive},
		"not known elsewhere": {"if a then\n  -- include queue/alive\nelse\n  -- include queue/alive\nend\n", "if a then\n" + inner + "else\n" + inner + "end\n"},
	} {
		require.Equal(t, c.want, scripts.Compose(c.source), name)
	}
	composed := scripts.Compose("-- include queue/search\n")
	for _, part := range []string{"now", "alive", "search"} {
		require.Equal(t, 1, strings.Count(composed, "-- queue/"+part+"\n"), part)
	}
}

func TestAConstantIsWrittenInPlaceOfItsName(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"a(GRACE_MS)\n":                      "a(15000)\n",
		"  a = GRACE_MS + 1 -- GRACE_MS\n":   "  a = 15000 + 1 -- 15000\n",
		"-- GRACE_MS\n":                      "-- GRACE_MS\n",
		"GRACE_MS_ and _GRACE_MS, GRACE_M\n": "GRACE_MS_ and _GRACE_MS, GRACE_M\n",
		"NO_WAITER":                          "'----------------------'",
	} {
		require.Equal(t, want, scripts.Compose(source))
	}
}

// A part that no file includes is left over. The test module compares what a part says that it uses and defines with its text.
func TestEachPartIsIncluded(t *testing.T) {
	t.Parallel()
	included, parts := make(map[string]bool), make(map[string]bool)
	for _, pattern := range []string{"*/*.lua", "parts/*/*.lua"} {
		files, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range includeLine.FindAllStringSubmatch(string(text), -1) {
				included[m[1]] = true
			}
			if name, isPart := strings.CutPrefix(strings.TrimSuffix(file, ".lua"), "parts/"); isPart {
				parts[name] = true
			}
		}
	}
	require.Equal(t, parts, included)
}

var includeLine = regexp.MustCompile(`(?m)^ *-- include ([a-z/-]+)$`)
