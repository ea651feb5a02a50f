// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	_ "embed"
	"strings"
)

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
