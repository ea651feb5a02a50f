// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Every text from outside, such as a name, a label or the words of a server, comes to a terminal, a page or a pipe by one of
// these functions. A character that is not printable, as strconv.IsPrint has it, could draw on the terminal, or change the
// direction of the text around it.

// shown returns text as it can be printed: in quotes if there is something strange in it.
func shown(text string) string {
	plain := text != "" && text == strings.TrimSpace(text) && utf8.ValidString(text) && !strings.ContainsAny(text, "\"\\\ufffd") &&
		!strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// counted returns a number with its noun, whose plural ends in s.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// oneLine returns the text of err behind the program's name. Strange characters are written as in a string of Go.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "\ufffd")), " ")
	return "signalbox: " + printable(strings.TrimPrefix(text, "signalbox: "))
}

// printable returns text with strange characters as in a string of Go.
func printable(text string) string {
	return escaped(strings.ToValidUTF8(text, "\ufffd"), func(r rune) string {
		quoted := strconv.QuoteRune(r)
		return quoted[1 : len(quoted)-1]
	})
}

// jsonLine returns an object on a line of its own. Strange characters are escaped; JSON means the same.
func jsonLine(object any) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		return nil, err
	}
	text := escaped(strings.TrimSuffix(line.String(), "\n"), func(r rune) string { // all of them are in strings
		var units strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&units, `\u%04x`, unit)
		}
		return units.String()
	})
	return []byte(text + "\n"), nil
}

// escaped returns text with what escape makes of each character that is not printable.
func escaped(text string, escape func(rune) string) string {
	var out strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(escape(r))
		}
	}
	return out.String()
}
