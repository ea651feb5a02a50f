// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// written is a script with what is read of it.
type written struct {
	*testing.T

	script *scripts.Script
	header header
	body   string // the text without comments
	own    string // the body of its file, without the parts that it includes
}

// eachScript runs a test for every script.
func eachScript(t *testing.T, check func(w written)) {
	t.Helper()
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		t.Run(fmt.Sprintf("%s.v%d", s.Name, s.Version), func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(fmt.Sprintf("%s.v%d.lua", s.Name, s.Version))
			require.NoError(t, err)
			h, own := parse(t, string(file))
			_, body := parse(t, s.Source)
			check(written{t, s, h, code(body), code(own)})
		})
	}
}

func TestAFileIsTheSameTextEverywhere(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		for i := range len(w.script.Source) {
			c := w.script.Source[i]
			require.True(w, c == '\n' || (c >= ' ' && c < 0x7f), "byte %d is %q: ASCII and LF only", i, c)
		}
		require.True(w, strings.HasSuffix(w.script.Source, "\n"), "the last line has no end")
		require.False(w, strings.HasPrefix(w.script.Source, "#!"), "a #! line makes the server refuse releases for lack of memory")
	})
}

func TestAHeaderSaysWhatTheScriptIs(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		require.Equal(w, fmt.Sprintf("-- %s v%d", w.script.Name, w.script.Version), w.header.title)
		require.NotEmpty(w, w.header.purpose)
		require.NotEmpty(w, w.header.keys, "no KEYS: in a cluster nobody knows where to run it")
		require.NotEmpty(w, w.header.returns)
		require.NotEmpty(w, w.header.effects)
		require.NotEmpty(w, w.header.cost)
	})
}

func TestAHeaderHasTheKeysAndArgumentsOfTheBody(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		body := w.body
		named := loopNames(body)
		for what, fields := range map[string][]field{"KEYS": w.header.keys, "ARGV": w.header.args} {
			if len(fields) == 1 && fields[0].index == "n" {
				body = requireVariadic(w.T, what, fields[0], named, body)
				continue
			}
			for i, f := range fields {
				require.Equal(w, strconv.Itoa(i+1), f.index, "%s are not numbered in order", what)
			}
			if len(fields) > 0 {
				body = requireNamed(w.T, what, fields, body)
			}
		}
		require.NotContains(w, body, "KEYS", "use the names given at the top")
		require.NotContains(w, body, "ARGV", "use the names given at the top")
	})
}

// requireNamed checks for the line that names all of KEYS or ARGV, and returns the body
// without it.
func requireNamed(t *testing.T, what string, fields []field, body string) string {
	t.Helper()
	names, values := make([]string, len(fields)), make([]string, len(fields))
	for i, f := range fields {
		names[i], values[i] = f.name, fmt.Sprintf("%s[%d]", what, i+1)
	}
	line := "local " + strings.Join(names, ", ") + " = " + strings.Join(values, ", ") + "\n"
	require.Contains(t, body, line, "%s are not named as the header has them", what)
	rest := strings.Replace(body, line, "", 1)
	for _, name := range names {
		if strings.HasPrefix(name, "_") {
			continue // it is there for those that take it
		}
		require.Regexp(t, `\b`+name+`\b`, rest, "not used")
	}
	return rest
}

var (
	byIndex = map[string]*regexp.Regexp{
		"KEYS": regexp.MustCompile(`KEYS\[(?:(\d+) \* )?n(?: - (\d+))?\]`),
		"ARGV": regexp.MustCompile(`ARGV\[(?:(\d+) \* )?n(?: - (\d+))?\]`),
	}
	loopLine = regexp.MustCompile(`(?m)^  local ([\w, ]+) = ((?:(?:KEYS|ARGV)\[[^\]]*\](?:, )?)+)$`)
)

// loopNames returns what the first lines of a loop over KEYS call what they take from KEYS and ARGV.
func loopNames(body string) map[string]string {
	named := make(map[string]string)
	for _, m := range loopLine.FindAllStringSubmatch(body, -1) {
		for i, source := range split(m[2]) {
			named[source] = split(m[1])[i]
		}
	}
	return named
}

// requireVariadic checks that the body loops over all of KEYS, or takes from either the same number
// for each request, by the loop's n. It returns the body without that.
func requireVariadic(t *testing.T, what string, f field, named map[string]string, body string) string {
	t.Helper()
	if what == "KEYS" && len(f.parts) == 0 {
		if loop := "for n, " + f.name + " in ipairs(KEYS) do"; strings.Contains(body, loop) {
			return strings.Replace(body, loop, "", 1)
		}
		require.Equal(t, f.name, named["KEYS[n]"])
		return strings.NewReplacer("#KEYS", "", "KEYS[n]", "", "unpack(KEYS)", "").Replace(body)
	}
	byIndex := byIndex[what]
	taken := byIndex.FindAllStringSubmatch(body, -1)
	require.NotEmpty(t, taken, "not used")
	states := make(map[string]bool)
	for _, m := range taken {
		require.Equal(t, taken[0][1], m[1], "as many for each key")
		states[m[2]] = true
	}
	size, err := strconv.Atoi(taken[0][1])
	require.NoError(t, err)
	require.Len(t, states, size, "places of a group that are not used")
	for i, part := range f.parts {
		source := fmt.Sprintf("%s[%d * n - %d]", what, size, size-1-i)
		require.Equal(t, part, named[strings.Replace(source, " - 0", "", 1)], "%s is not named as the header has it", source)
	}
	if len(f.parts) > 0 {
		require.Len(t, f.parts, size)
	}
	return strings.NewReplacer("#"+what, "", "unpack("+what+")", "").Replace(byIndex.ReplaceAllString(body, ""))
}

func TestAHeaderListsEveryReturn(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		said := make(map[string]bool)
		for _, reply := range w.header.returns {
			said[shape(reply, nil)] = true
		}
		require.Equal(w, said, returns(w.own), "header and body return different shapes")
		require.Equal(w, strings.Count(w.own, "return "), len(returned.FindAllString(w.own, -1)), "a return shares its line")
	})
}

var called = regexp.MustCompile(`redis\.p?call\(([^()]*(?:\([^()]*\)[^()]*)*)\)`)

var functionOfKey = regexp.MustCompile(`(?:key_ends\(|(?:lengthen_key|note_life|raise)[(]|pcall\((?:lengthen_key|note_life), )(\w+)`)

func TestNoKeyIsBuiltInsideAScript(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		known := map[string]bool{"channel": true, "forced": true, "forced_channel": true, "session_channel": true, "unpack(KEYS)": true}
		for _, f := range w.header.keys {
			known[f.name] = true
			for _, part := range f.parts {
				known[part] = true
			}
		}
		// But for the keys that Redisson has beside a hash for what the hash says: in its slot, see the part.
		known["timeout"] = strings.HasPrefix(w.script.Name, "redisson/rwlock-")
		// The parts key/... are functions of a key: those that they are called with are checked in its place.
		for _, m := range functionOfKey.FindAllStringSubmatch(w.body, -1) {
			require.True(w, known[m[1]] || m[1] == "key", "%s: not one of KEYS", m[0])
			known["key"] = true
		}
		calls := called.FindAllStringSubmatch(w.body, -1)
		require.Len(w, calls, strings.Count(w.body, "redis.call(")+strings.Count(w.body, "redis.pcall("))
		for _, m := range calls {
			if arguments := split(m[1]); len(arguments) > 1 && arguments[0] != "'INFO'" && arguments[0] != "'PUBSUB'" { // which take no key
				// A channel of a session ends with it; a key never does.
				what, session, _ := strings.Cut(arguments[1], " .. ")
				require.True(w, known[what] && (session == "" || strings.HasSuffix(what, "channel")), "%s: not one of KEYS", m[0])
			}
		}
	})
}

var (
	number = regexp.MustCompile(`^(\d+$|tonumber\(|math\.)|[^'] [-+*/] `)
	text   = regexp.MustCompile(`^string\.(?:format|sub)\(`)
)

// A number above 2^53/100 that is joined to a text by .. loses its last digits.
func TestNumbersBecomeTextByFormatOnly(t *testing.T) {
	t.Parallel()
	eachScript(t, func(w written) {
		for _, m := range assigned.FindAllStringSubmatch(w.body, -1) {
			names, values := split(m[1]), split(m[2])
			for i, value := range values {
				if number.MatchString(byIndex["ARGV"].ReplaceAllString(value, "")) && !strings.Contains(value, "..") && !text.MatchString(value) {
					require.NotRegexp(w, `\b`+names[i]+` \.\.|\.\. `+names[i]+`\b`, w.body, "a number is joined to a text")
				}
			}
		}
		require.NotRegexp(w, `tonumber\([^()]*\) \.\.|\.\. tonumber|tostring`, w.body)
		for _, m := range regexp.MustCompile(`string\.format\('([^']*)'`).FindAllStringSubmatch(w.body, -1) {
			require.Contains(w, []string{"%016.0f", "%.0f"}, m[1], "%%d and %%g round what is above 2^31 or 2^53/100")
		}
	})
}
