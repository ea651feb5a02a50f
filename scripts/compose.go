// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	_ "embed"
	"strings"
)

// include begins a line that stands for the part that it names.
const include = "-- include "

// compose returns a text with the parts that it includes, each in place of its line, and with the
// constants in place of their names. A part includes what it uses itself. In Lua a name is known to
// the end of its block, so a part is written once for each block, in front of what uses it.
func compose(source string) string {
	var c composer
	c.add(source, 0)
	return c.text.String()
}

// composer is a text with parts, as far as it is written.
type composer struct {
	text  strings.Builder
	known []part // the parts whose names are known here, those of inner blocks last
}

// part is a part that was written, and how many blanks it is indented by.
type part struct {
	name  string
	depth int
}

// add writes a file, indented by depth.
func (c *composer) add(source string, depth int) {
	for line := range strings.Lines(source) {
		bare := strings.TrimLeft(line, " ")
		inner := depth + len(line) - len(bare)
		if name, found := strings.CutPrefix(bare, include); found {
			c.include(strings.TrimSpace(name), inner)
			continue
		}
		if bare != "\n" {
			c.forget(inner)
			c.text.WriteString(strings.Repeat(" ", inner))
		}
		writeLine(&c.text, bare)
	}
}

// include writes a part, unless its names are known.
func (c *composer) include(name string, depth int) {
	c.forget(depth)
	for _, p := range c.known {
		if p.name == name {
			return
		}
	}
	c.add(readFile("parts/"+name+".lua"), depth)
	c.known = append(c.known, part{name, depth})
}

// forget ends the blocks that are indented by more than depth.
func (c *composer) forget(depth int) {
	for len(c.known) > 0 && c.known[len(c.known)-1].depth > depth {
		c.known = c.known[:len(c.known)-1]
	}
}

//go:embed constants.lua
var constantsFile string

// constants has the text that stands for each name of constants.lua.
//
//nolint:gochecknoglobals // a constant in all but name: read from the embedded file once
var constants = readConstants(constantsFile)

func readConstants(file string) map[string]string {
	read := make(map[string]string)
	for line := range strings.Lines(file) {
		if rest, found := strings.CutPrefix(line, "local "); found {
			name, value, _ := strings.Cut(rest, " = ")
			value, _, _ = strings.Cut(value, " -- ")
			read[name] = strings.TrimSpace(value)
		}
	}
	return read
}

// writeLine writes a line of Lua, with the constants in place of their names. A comment stays as it is.
func writeLine(to *strings.Builder, line string) {
	if strings.HasPrefix(line, "--") {
		to.WriteString(line)
		return
	}
	from := 0 // what is before it is written
	for i := 0; i < len(line); {
		if !isWord(line[i]) {
			i++
			continue
		}
		begins := i
		for i < len(line) && isWord(line[i]) {
			i++
		}
		if value := constants[line[begins:i]]; value != "" {
			to.WriteString(line[from:begins])
			to.WriteString(value)
			from = i
		}
	}
	to.WriteString(line[from:])
}

func isWord(c byte) bool {
	return c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
