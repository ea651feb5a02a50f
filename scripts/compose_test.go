// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
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

var (
	includeLine = regexp.MustCompile(`(?m)^ *-- include ([a-z/-]+)$`)
	partHeader  = regexp.MustCompile(`^(?:-- include .*\n)*-- ([a-z/-]+)\n(?:-- .+\n)*--\n-- uses     .+\n-- defines  .+\n[^-]`)
)

// The test module compares what a part says that it uses and defines with its text.
func TestAPartHasAHeaderAndAUse(t *testing.T) {
	t.Parallel()
	used, parts := make(map[string]bool), make(map[string]bool)
	for _, pattern := range []string{"*/*.lua", "parts/*/*.lua"} {
		files, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range includeLine.FindAllStringSubmatch(string(text), -1) {
				used[m[1]] = true
			}
			require.Equal(t, strings.Count(string(text), "-- include "), len(includeLine.FindAllString(string(text), -1)), file)
			if name, isPart := strings.CutPrefix(strings.TrimSuffix(file, ".lua"), "parts/"); isPart {
				parts[name] = true
				header := partHeader.FindStringSubmatch(string(text))
				require.NotNil(t, header, "%s has no header", file)
				require.Equal(t, name, header[1])
				for line := range strings.Lines(string(text)) {
					if strings.HasPrefix(line, "-- ") && !strings.HasPrefix(line, "-- uses ") && !strings.HasPrefix(line, "-- defines ") {
						require.LessOrEqual(t, len(line), 101, "%s: %s", file, line)
					}
				}
			}
		}
	}
	require.Equal(t, parts, used)
}

const ownLines = 120

func TestAScriptIsShort(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		require.LessOrEqual(w, strings.Count(w.own, "\n"), ownLines, "lines of code")
		file, err := os.ReadFile(fmt.Sprintf("%s.v%d.lua", w.script.Name, w.script.Version))
		require.NoError(w, err)
		for line := range strings.Lines(string(file)) {
			if strings.HasPrefix(strings.TrimSpace(line), "--") {
				require.LessOrEqual(w, len(line), 101, line)
			}
		}
	})
}
