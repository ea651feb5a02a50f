// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// The indices of users in the result of users.
const (
	oneServer = iota
	behindSentinels
	sentinels
	cluster
)

// page returns the text of docs/security.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	return string(text)
}

// users returns the page's lines that make users, in order: of one server, of the data nodes behind
// sentinels, of the sentinels, of a cluster. Each is what follows "on >password".
func users(t *testing.T) [][]string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^    ACL SETUSER \w+ on >password (.*)$`).FindAllStringSubmatch(page(t), -1)
	require.Len(t, lines, 4)
	rights := make([][]string, len(lines))
	for i, line := range lines {
		rights[i] = strings.Fields(line[1])
	}
	return rights
}

// isShared reports whether a script is one of Redisson's layout.
func isShared(s *scripts.Script) bool { return strings.HasPrefix(s.Name, "redisson/") }

// commandsOf returns what some scripts call, in upper case.
func commandsOf(t *testing.T, which func(*scripts.Script) bool) []string {
	t.Helper()
	called := regexp.MustCompile(`redis\.p?call\(('([A-Za-z]+)'|\w+)`)
	verbs := regexp.MustCompile(`(?m)^-- .*\bverb +(\w+) or (\w+)\b`)
	all, err := scripts.All()
	require.NoError(t, err)
	var found []string
	for _, s := range all {
		if !which(s) {
			continue
		}
		for _, m := range called.FindAllStringSubmatch(s.Source, -1) {
			if m[2] != "" {
				found = append(found, strings.ToUpper(m[2]))
				continue
			}
			// An argument names the command to call, and the script's header says what it may be.
			require.Equal(t, "verb", m[1], s.Name)
			choice := verbs.FindStringSubmatch(s.Source)
			require.NotNil(t, choice, s.Name)
			found = append(found, choice[1:]...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Every right of a user has its row, which says what happens without it, and every command of a script its
// right.
func TestThePageSaysWhatEachRightIsFor(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^\| (.*?[^\\]) \| .* \| .* \|$`).FindAllStringSubmatch(page(t), -1) {
		rows.WriteString(strings.ReplaceAll(m[1], `\|`, "|"))
	}
	lines := users(t)
	for i, rights := range lines {
		for _, right := range rights {
			if strings.HasPrefix(right, "+") && i != sentinels { // the sentinels' own are in the text
				require.Contains(t, rows.String(), "`"+right[1:]+"`")
			}
		}
	}
	for _, command := range commandsOf(t, func(s *scripts.Script) bool { return !isShared(s) }) {
		right := "+" + strings.ToLower(command)
		if command == "PERSIST" || command == "GETRANGE" { // for keys without an end, which Redisson's permits have; for lists
			require.NotContains(t, lines[cluster], right)
			continue
		}
		require.Contains(t, lines[cluster], right)
		if command != "SPUBLISH" {
			require.Contains(t, lines[oneServer], right)
			require.Contains(t, lines[behindSentinels], right)
		}
	}
}

// What Redisson's layout needs beside the rights of the library's own is in its own part.
func TestThePageSaysWhatRedissonsLayoutNeeds(t *testing.T) {
	t.Parallel()
	_, part, found := strings.Cut(page(t), "**Redisson's layout**")
	require.True(t, found)
	part, _, _ = strings.Cut(part, "\n\n")
	lines := users(t)
	for _, command := range append(commandsOf(t, isShared), "PERSIST") {
		if right := strings.ToLower(command); !slices.Contains(lines[cluster], "+"+right) {
			require.Contains(t, part, "`+"+right+"`")
		}
	}
}
