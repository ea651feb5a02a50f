// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

var (
	trailing     = regexp.MustCompile(`(?m) -- .*$`)
	quoted       = regexp.MustCompile(`'[^'\n]*'`)
	indexed      = regexp.MustCompile(`\b(?:KEYS|ARGV)\[[^\]]*\]`)
	bareNumber   = regexp.MustCompile(`\b\d[\w.]*`)
	capitals     = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*\b`)
	constantLine = regexp.MustCompile(`^local ([A-Z][A-Z0-9_]*) = (\d+|1e15|'[0-9-]+')( -- \S.*)?\n$`)
)

// ownCode returns the code of a file, without comments and texts.
func ownCode(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return quoted.ReplaceAllString(trailing.ReplaceAllString(code(string(text)), ""), "''")
}

func luaFiles(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*/*.lua", "parts/*/*.lua"} {
		files, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		all = append(all, files...)
	}
	return all
}

// A number of more than one digit has a name, and constants.lua says what it is.
func TestEachNumberHasAName(t *testing.T) {
	t.Parallel()
	for _, file := range luaFiles(t) {
		for line := range strings.Lines(ownCode(t, file)) {
			for _, number := range bareNumber.FindAllString(indexed.ReplaceAllString(line, ""), -1) {
				digit, err := strconv.Atoi(number)
				require.True(t, err == nil && digit < 10, "%s: %s", file, line)
			}
		}
	}
}

// readConstants returns the names of constants.lua, each with a comment or under one.
func readConstants(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("constants.lua")
	require.NoError(t, err)
	names, isExplained := make(map[string]bool), false
	for line := range strings.Lines(string(text)) {
		require.LessOrEqual(t, len(line), 101, line)
		switch {
		case line == "\n":
			isExplained = false
		case strings.HasPrefix(line, "-- "):
			isExplained = true
		default:
			m := constantLine.FindStringSubmatch(line)
			require.NotNil(t, m, line)
			require.True(t, isExplained || m[3] != "", "what is %s?", m[1])
			require.NotContains(t, names, m[1])
			names[m[1]] = true
		}
	}
	return names
}

// In a script no name of a constant is left.
func TestEachConstantIsDefinedAndUsed(t *testing.T) {
	t.Parallel()
	names, used := readConstants(t), make(map[string]bool)
	for _, file := range luaFiles(t) {
		for _, name := range capitals.FindAllString(ownCode(t, file), -1) {
			switch {
			case name == "KEYS", name == "ARGV", strings.HasPrefix(name, "REPL_"), name == "REDIS_VERSION_NUM":
				require.NotContains(t, names, name)
			default:
				require.Contains(t, names, name, file)
				used[name] = true
			}
		}
	}
	require.Equal(t, names, used)
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		for _, name := range capitals.FindAllString(code(s.Source), -1) {
			require.NotContains(t, names, name, s.Name)
		}
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
