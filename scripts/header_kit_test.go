// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// header is what a script says of itself. The expressions below are its grammar.
type header struct {
	title   string // the first line
	purpose string
	keys    []field
	args    []field
	returns []string // shapes, as they stand
	effects string
	cost    string
}

// field is one of KEYS or ARGV: the index, "n" for all from there on, the name, and the names of
// what a group is made of.
type field struct {
	index, name string
	parts       []string
}

var (
	indexLine     = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+|n)\]  +([a-z_]+)  +\S`)
	wordLine      = regexp.MustCompile(`^-- (returns|effects|cost)  +(\S.*)$`)
	continuedLine = regexp.MustCompile(`^--          (?:  )?(\S.*)$`)
	partOfGroup   = regexp.MustCompile(`^([a-z_]+)  +\S`)
	shapeText     = regexp.MustCompile(`^(?:reply, )?(\{[^}]*\}|-?\d+|stamp|an error)(  +\S.*)?$`)
)

// parse takes the text of a script apart. body begins with the first line that is no comment.
func parse(t *testing.T, source string) (h header, body string) {
	t.Helper()
	lines := strings.SplitAfter(source, "\n")
	h.title = strings.TrimSuffix(lines[0], "\n")
	section := "purpose"
	n := 1
	for ; strings.HasPrefix(lines[n], "--"); n++ {
		line := strings.TrimSuffix(lines[n], "\n")
		text := ""
		switch {
		case line == "--":
			section = "fields"
			continue
		case section == "purpose":
			h.purpose += strings.TrimPrefix(line, "-- ") + " "
			continue
		case indexLine.MatchString(line):
			m := indexLine.FindStringSubmatch(line)
			require.True(t, section == "fields" || section == m[1] || section == "KEYS" && m[1] == "ARGV", "out of order: %s", line)
			if section = m[1]; section == "KEYS" {
				h.keys = append(h.keys, field{index: m[2], name: m[3]})
			} else {
				h.args = append(h.args, field{index: m[2], name: m[3]})
			}
			continue
		case wordLine.MatchString(line):
			m := wordLine.FindStringSubmatch(line)
			section, text = m[1], m[2]
		case continuedLine.MatchString(line):
			text = continuedLine.FindStringSubmatch(line)[1]
		default:
			require.FailNow(t, "a line of the header says nothing that the grammar knows", line)
		}
		h.add(section, text)
	}
	return h, strings.Join(lines[n:], "")
}

func (h *header) add(section, text string) {
	switch section {
	case "KEYS", "ARGV":
		fields := h.keys
		if section == "ARGV" {
			fields = h.args
		}
		if m := partOfGroup.FindStringSubmatch(text); m != nil {
			last := &fields[len(fields)-1]
			last.parts = append(last.parts, m[1])
		}
	case "returns":
		// What is no shape explains the ones above it.
		if m := shapeText.FindStringSubmatch(text); m != nil {
			h.returns = append(h.returns, m[1])
		}
	case "effects":
		h.effects += text
	case "cost":
		h.cost += text
	}
}

var comment = regexp.MustCompile(`(?m)^\s*--.*\n`)

// code returns the body without its comments.
func code(body string) string { return comment.ReplaceAllString(body, "") }

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

// shape writes a reply so that those of header and body compare: the integer that it is or begins
// with as it stands, x for what is worked out, and a list for any number of elements.
func shape(reply string, lists map[string]bool) string {
	inner, isTable := strings.CutPrefix(reply, "{")
	switch {
	case lists[reply], strings.HasSuffix(reply, ", ...}"):
		return "a list"
	case reply == "an error":
		return reply
	case !isTable:
		return element(reply)
	}
	elements := split(strings.TrimSuffix(inner, "}"))
	elements[0] = element(elements[0])
	for i := range elements[1:] {
		elements[i+1] = "x"
	}
	return "{" + strings.Join(elements, ", ") + "}"
}

var integer = regexp.MustCompile(`^-?\d+$`)

func element(text string) string {
	if integer.MatchString(text) {
		return text
	}
	return "x"
}

var (
	returned = regexp.MustCompile(`(?m)^\s*return (.*)$`)
	listMade = regexp.MustCompile(`(?m)^local (\w+) = \{\}$`)
	assigned = regexp.MustCompile(`(?m)^\s*(?:local )?(\w+(?:, \w+)*) = (.*)$`)
	pcalled  = regexp.MustCompile(`(?m)^\s*local (\w+) = (?:\w+\[n\] or )?(?:redis\.pcall|.* or write_hold|write_hold)\(`)
)

// returns reports the shapes that a body returns. What is returned as reply has the shapes that were
// assigned to it; what the server was asked for by pcall, in a part or not, and is returned as it came, is a refusal.
func returns(body string) map[string]bool {
	lists := make(map[string]bool)
	for _, m := range listMade.FindAllStringSubmatch(body, -1) {
		lists[m[1]] = true
	}
	refusals := make(map[string]bool)
	for _, m := range pcalled.FindAllStringSubmatch(body, -1) {
		refusals[m[1]] = true
	}
	var values []string
	for _, m := range returned.FindAllStringSubmatch(body, -1) {
		if m[1] != "reply" {
			values = append(values, m[1])
		}
	}
	for _, m := range assigned.FindAllStringSubmatch(body, -1) {
		if i := slices.Index(split(m[1]), "reply"); i >= 0 {
			values = append(values, split(m[2])[i])
		}
	}
	shapes := make(map[string]bool)
	for _, value := range values {
		if refusals[value] {
			value = "an error"
		}
		shapes[shape(value, lists)] = true
	}
	return shapes
}
