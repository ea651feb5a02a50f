// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is one table of the report.
type table struct {
	title  string
	note   string // how it was measured, a sentence
	header []string
	rows   [][]string
}

// column is a heading, and what stands below it for each implementation.
type column struct {
	title string
	cell  func(all []series, s series) string
}

// tabulate makes a table of series.
func tabulate(title, note string, all []series, columns []column) table {
	t := table{title: title, note: note, header: []string{"implementation"}}
	for _, c := range columns {
		t.header = append(t.header, c.title)
	}
	for _, s := range all {
		row := []string{s.impl.name}
		for _, c := range columns {
			row = append(row, c.cell(all, s))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// write prints the table as Markdown whose source can be read as well.
func (t table) write(w io.Writer) error {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n## %s\n\n", t.title)
	if t.note != "" {
		fmt.Fprintf(&text, "%s\n\n", wrapped(t.note))
	}
	t.grid(&text, widths)
	_, err := io.WriteString(w, text.String())
	return err
}

// grid prints the cells, if there are any.
func (t table) grid(text *strings.Builder, widths []int) {
	if len(t.header) == 0 {
		return
	}
	line(text, widths, t.header)
	for i, width := range widths {
		dashes := strings.Repeat("-", width+1)
		if i == 0 {
			fmt.Fprintf(text, "|%s-", dashes)
			continue
		}
		fmt.Fprintf(text, "|%s:", dashes) // numbers are aligned to the right
	}
	text.WriteString("|\n")
	for _, row := range t.rows {
		line(text, widths, row)
	}
}

// pageWidth is where lines of prose end.
const pageWidth = 120

// wrapped breaks a text into lines.
func wrapped(text string) string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= pageWidth {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return strings.Join(lines, "\n")
}

func line(text *strings.Builder, widths []int, row []string) {
	for i, cell := range row {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i == 0 {
			fmt.Fprintf(text, "| %s%s ", cell, space)
			continue
		}
		fmt.Fprintf(text, "| %s%s ", space, cell)
	}
	text.WriteString("|\n")
}

// none is the text of a cell without a figure.
const none = "-"

// number prints whole numbers as they are, others with three significant digits or all that
// are before the point, in groups.
func number(v float64) string {
	switch {
	case v == math.Trunc(v) && v < 1000:
		return strconv.Itoa(int(v))
	case v < 1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// span prints seconds in the unit that suits them.
func span(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d < time.Microsecond:
		return number(seconds*1e9) + " ns"
	case d < time.Millisecond:
		return number(seconds*1e6) + " µs"
	case d < time.Second:
		return number(seconds*1e3) + " ms"
	}
	return number(seconds) + " s"
}

func percent(v float64) string { return number(100*v) + " %" }

func size(v float64) string { return number(v) + " B" }
