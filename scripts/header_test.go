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

// field is one of KEYS or ARGV, as the header of a script has it: the index, "n" for all from there on, the name, and the names of
// what a group is made of. The data files of test/suite send the arguments in the order of the header.
type field struct {
	index, name string
	parts       []string
}

var (
	indexLine = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+|n)\]  +([a-z_]+)  `)
	partLine  = regexp.MustCompile(`^--            ([a-z_]+)  `)
	comment   = regexp.MustCompile(`(?m)^\s*--.*\n`)
)

// fieldsOf returns the KEYS or the ARGV of a script, and codeOf its text without comments.
func fieldsOf(source, what string) (fields []field) {
	section := ""
	for line := range strings.Lines(source) {
		if m := indexLine.FindStringSubmatch(line); m != nil {
			if section = m[1]; section == what {
				fields = append(fields, field{index: m[2], name: m[3]})
			}
		} else if m := partLine.FindStringSubmatch(line); m != nil && section == what {
			last := &fields[len(fields)-1]
			last.parts = append(last.parts, m[1])
		} else if !strings.HasPrefix(line, "--  ") {
			section = ""
		}
	}
	return fields
}

func codeOf(source string) string { return comment.ReplaceAllString(source, "") }

// split cuts a list at the commas that stand in no bracket, brace or quotes.
func split(list string) []string {
	var parts []string
	depth, quoted, from := 0, false, 0
	for i, c := range list {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("([{", c):
			depth++
		case strings.ContainsRune(")]}", c):
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, strings.TrimSpace(list[from:i]))
			from = i + 1
		}
	}
	return append(parts, strings.TrimSpace(list[from:]))
}

// eachScript runs a test for every script.
func eachScript(t *testing.T, check func(t *testing.T, s *scripts.Script)) {
	t.Helper()
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		t.Run(fmt.Sprintf("%s.v%d", s.Name, s.Version), func(t *testing.T) {
			t.Parallel()
			check(t, s)
		})
	}
}

func TestAFileIsTheSameTextEverywhere(t *testing.T) {
	t.Parallel()
	eachScript(t, func(t *testing.T, s *scripts.Script) {
		t.Helper()
		require.Regexp(t, `^[\n -~]*\n$`, s.Source, "ASCII and LF only")
		require.True(t, strings.HasPrefix(s.Source, fmt.Sprintf("-- %s v%d\n", s.Name, s.Version)), "a #! line makes the server refuse releases for lack of memory")
	})
}

var called = regexp.MustCompile(`redis\.p?call\(([^()]*(?:\([^()]*\)[^()]*)*)\)`)

var functionOfKey = regexp.MustCompile(`(?:key_ends\(|(?:lengthen_key|note_life|raise)[(]|pcall\((?:lengthen_key|note_life), )(\w+)`)

func TestNoKeyIsBuiltInsideAScript(t *testing.T) {
	t.Parallel()
	eachScript(t, func(t *testing.T, s *scripts.Script) {
		t.Helper()
		body := codeOf(s.Source)
		known := map[string]bool{"channel": true, "forced": true, "forced_channel": true, "session_channel": true, "unpack(KEYS)": true}
		for _, f := range fieldsOf(s.Source, "KEYS") {
			known[f.name] = true
			for _, part := range f.parts {
				known[part] = true
			}
		}
		// But for the keys that Redisson has beside a hash for what the hash says: in its slot, see the part.
		known["timeout"] = strings.HasPrefix(s.Name, "redisson/rwlock-")
		// The parts key/... are functions of a key: those that they are called with are checked in its place.
		for _, m := range functionOfKey.FindAllStringSubmatch(body, -1) {
			require.True(t, known[m[1]] || m[1] == "key", "%s: not one of KEYS", m[0])
			known["key"] = true
		}
		calls := called.FindAllStringSubmatch(body, -1)
		require.Len(t, calls, strings.Count(body, "redis.call(")+strings.Count(body, "redis.pcall("))
		for _, m := range calls {
			if arguments := split(m[1]); len(arguments) > 1 && arguments[0] != "'INFO'" && arguments[0] != "'PUBSUB'" { // which take no key
				// A channel of a session ends with it; a key never does.
				what, session, _ := strings.Cut(arguments[1], " .. ")
				require.True(t, known[what] && (session == "" || strings.HasSuffix(what, "channel")), "%s: not one of KEYS", m[0])
			}
		}
	})
}

var (
	assigned = regexp.MustCompile(`(?m)^\s*(?:local )?(\w+(?:, \w+)*) = (.*)$`)
	argument = regexp.MustCompile(`ARGV\[(?:(\d+) \* )?n(?: - (\d+))?\]`)
	number   = regexp.MustCompile(`^(\d+$|tonumber\(|math\.)|[^'] [-+*/] `)
	text     = regexp.MustCompile(`^string\.(?:format|sub)\(`)
)

// A number above 2^53/100 that is joined to a text by .. loses its last digits.
func TestNumbersBecomeTextByFormatOnly(t *testing.T) {
	t.Parallel()
	eachScript(t, func(t *testing.T, s *scripts.Script) {
		t.Helper()
		body := codeOf(s.Source)
		for _, m := range assigned.FindAllStringSubmatch(body, -1) {
			names, values := split(m[1]), split(m[2])
			for i, value := range values {
				if number.MatchString(argument.ReplaceAllString(value, "")) && !strings.Contains(value, "..") && !text.MatchString(value) {
					require.NotRegexp(t, `\b`+names[i]+` \.\.|\.\. `+names[i]+`\b`, body, "a number is joined to a text")
				}
			}
		}
		require.NotRegexp(t, `tonumber\([^()]*\) \.\.|\.\. tonumber|tostring`, body)
		for _, m := range regexp.MustCompile(`string\.format\('([^']*)'`).FindAllStringSubmatch(body, -1) {
			require.Contains(t, []string{"%016.0f", "%.0f"}, m[1], "%%d and %%g round what is above 2^31 or 2^53/100")
		}
	})
}

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
