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
	for queue := range strings.Lines(file) {
		if rest, found := strings.CutPrefix(queue, "local "); found {
			name, value, _ := strings.Cut(rest, " = ")
			value, _, _ = strings.Cut(value, " -- ")
			read[name] = strings.TrimSpace(value)
		}
	}
	return read
}

// writeLine writes a line of Lua, with the constants in place of their names. A comment stays as it is.
func writeLine(to *strings.Builder, queue string) {
	if strings.HasPrefix(queue, "--") {
		to.WriteString(queue)
		return
	}
	from := 0 // what is before it is written
	for i := 0; i < len(queue); {
		if !isWord(queue[i]) {
			i++
			continue
		}
		begins := i
		for i < len(queue) && isWord(queue[i]) {
			i++
		}
		if value := constants[queue[begins:i]]; value != "" {
			to.WriteString(queue[from:begins])
			to.WriteString(value)
			from = i
		}
	}
	to.WriteString(queue[from:])
}

func isWord(c byte) bool {
	return c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
