// SPDX-License-Identifier: Apache-2.0

// Package words says in words what package inspect lists: for the terminal and for pages.
//
// Every text from outside, such as a name, a label or the words of a server, comes there by one of its functions. A character that
// is not printable, as strconv.IsPrint has it, could draw on the terminal, or change the direction of the text around it.
package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/signalbox-go/signalbox/inspect"
)

// Shown returns text as it can be printed: in quotes if there is something strange in it.
func Shown(text string) string {
	plain := text != "" && text == strings.TrimSpace(text) && utf8.ValidString(text) && !strings.ContainsAny(text, "\"\\\ufffd") &&
		!strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// Counted returns a number with its noun, whose plural ends in s.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// OneLine returns the text of err behind the program's name. Strange characters are written as in a string of Go.
func OneLine(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "\ufffd")), " ")
	return "signalbox: " + Printable(strings.TrimPrefix(text, "signalbox: "))
}

// Printable returns text with strange characters as in a string of Go.
func Printable(text string) string {
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		if strconv.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// JSONLine returns an object on a line of its own. Strange characters are escaped; JSON means the same.
func JSONLine(object any) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(PrintableJSON(&line))
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(object)
	return line.Bytes(), err
}

// PrintableJSON returns a writer for a json.Encoder, which writes to w with strange characters escaped. An object is written at once.
func PrintableJSON(w io.Writer) io.Writer { return printableJSON{w} }

type printableJSON struct{ to io.Writer }

// Write implements io.Writer. What is not printable is in strings, except for the end of the line.
func (p printableJSON) Write(b []byte) (int, error) {
	done := 0 // how much of b is written
	for at := 0; at < len(b); {
		r, size := utf8.DecodeRune(b[at:])
		if r != '\n' && !strconv.IsPrint(r) {
			if _, err := p.to.Write(b[done:at]); err != nil {
				return done, err
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				_, _ = fmt.Fprintf(p.to, `\u%04x`, unit) // the next Write has the error, too
			}
			done = at + size
		}
		at += size
	}
	_, err := p.to.Write(b[done:])
	return len(b), err
}

// Held describes the holders of an entry, in few words.
func Held(e inspect.Entry) string {
	summary := e.Summary()
	switch {
	case e.IsHeld() && summary != "":
		return summary
	case len(e.Holders) == 0:
		return "-"
	}
	text := Shown(e.Holders[0].Label)
	if e.HolderCount > 1 {
		text += fmt.Sprintf(" +%d", e.HolderCount-1)
	}
	switch {
	case e.Capacity > 0:
		text += fmt.Sprintf(" (%d of %d)", e.Held, e.Capacity)
	case e.Held > 0:
		text += fmt.Sprintf(" (%d)", e.Held)
	case e.Holders[0].Shared:
		text += " (read)"
	}
	return text
}

// Moment returns a time of the server, or a dash.
func Moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Token returns a fencing token, or a dash.
func Token(t uint64) string {
	if t == 0 {
		return "-"
	}
	return strconv.FormatUint(t, 10)
}

// Examined says how many keys of the server were examined.
func Examined(examined, keys int64) string {
	if keys == 0 {
		return fmt.Sprintf("%d keys examined", examined)
	}
	return fmt.Sprintf("%d of %d keys examined", examined, keys)
}

// lateness is how old a list is before it says so.
const lateness = 30 * time.Second

// Lateness says in a line how late a list is, or nothing if it is not.
func Lateness(now inspect.Snapshot) string {
	switch {
	case now.Err != nil && now.Keys == 0:
		return "" // the error says more
	case !now.Complete:
		return "not all names are found yet: " + Examined(now.Examined, now.Keys)
	case now.Age > lateness:
		return fmt.Sprintf("names that are new since %v may be missing: %s", now.Age.Round(time.Second), Examined(now.Examined, now.Keys))
	}
	return ""
}
