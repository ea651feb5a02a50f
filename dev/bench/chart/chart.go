// SPDX-License-Identifier: Apache-2.0

// Package chart draws the picture of the README from tables of bench/results.txt.
package chart

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Titles returns the sections whose tables are drawn, one below the other.
func Titles() []string {
	return []string{"8 processes of 16 goroutines, one lock", "100 processes of 1 goroutine, one lock"}
}

// panel is a column of bars.
type panel struct {
	column, title string
	value         func(cell string) (float64, error)
}

func panels() []panel {
	return []panel{
		{"ops/s", "operations a second: more is better", number},
		{"p99", "wait, p99: less is better", seconds},
		{"max", "longest wait: less is better", seconds},
		{"least/most served", "least to most served: even is better", share},
	}
}

// Sizes and distances, in pixels.
const (
	margin, labels, width = 16, 116, 244
	rowHeight, barHeight  = 26, 18
	longest               = 140 // bar
	heading               = 62  // from the top of a section to its first bar
)

// Draw returns the picture, in SVG, of the tables below Titles in a page.
func Draw(page string) (string, error) {
	var body strings.Builder
	top := 0
	for _, title := range Titles() {
		table, err := tableOf(page, title)
		if err != nil {
			return "", err
		}
		if err := section(&body, title, table, top); err != nil {
			return "", fmt.Errorf("%s: %w", title, err)
		}
		top += heading + rowHeight*(len(table)-1) + margin
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Helvetica,Arial,sans-serif" font-size="13" role="img" aria-label=%q>
  <style>.t{fill:#123;font-weight:bold}.s{fill:#456}.o{fill:#2f6fab}.r{fill:#b9c3cf}</style>
  <rect width="100%%" height="100%%" fill="#fafbfc"/>
%s</svg>
`, margin+labels+width*len(panels()), top, strings.Join(Titles(), "; "), &body), nil
}

// section draws a table, from top on.
func section(b *strings.Builder, title string, table [][]string, top int) error {
	text(b, margin, top+margin+10, "t", title+", without a pause")
	for i, row := range table[1:] {
		text(b, margin, top+heading+i*rowHeight+14, class(row[0], "t", "s"), row[0])
	}
	for i, p := range panels() {
		if err := p.draw(b, table, margin+labels+i*width, top); err != nil {
			return err
		}
	}
	return nil
}

func text(b *strings.Builder, x, y int, class, words string) {
	fmt.Fprintf(b, "  <text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(words))
}

// class returns ours for the locks of this project, and theirs for others.
func class(name, ours, theirs string) string {
	if strings.HasPrefix(name, "signalbox") {
		return ours
	}
	return theirs
}

// draw draws the bars of a panel at x.
func (p panel) draw(b *strings.Builder, table [][]string, x, top int) error {
	column := slices.Index(table[0], p.column)
	if column < 0 {
		return fmt.Errorf("the table has no column %q", p.column)
	}
	values := make([]float64, len(table)-1)
	most := 0.0
	for i, row := range table[1:] {
		var err error
		if values[i], err = p.value(row[column]); err != nil {
			return fmt.Errorf("%s of %s: %w", p.column, row[0], err)
		}
		most = max(most, values[i])
	}
	text(b, x, top+heading-12, "s", p.title)
	for i, row := range table[1:] {
		y, length := top+heading+i*rowHeight, max(1, int(longest*values[i]/most))
		fmt.Fprintf(b, "  <rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"%s\"/>\n", x, y, length, barHeight, class(row[0], "o", "r"))
		text(b, x+length+6, y+14, "s", row[column])
	}
	return nil
}

// tableOf returns the cells of the first table of a section, without the line of dashes.
func tableOf(page, title string) (rows [][]string, err error) {
	_, section, found := strings.Cut(page, "\n## "+title+"\n")
	if !found {
		return nil, fmt.Errorf("there is no section %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("the section %q has no table", title)
	}
	return rows, nil
}

// number reads a cell such as 2,300.
func number(cell string) (float64, error) {
	return strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64)
}

// seconds reads a cell such as 98.6 ms.
func seconds(cell string) (float64, error) {
	d, err := time.ParseDuration(strings.ReplaceAll(cell, " ", ""))
	return d.Seconds(), err
}

// share reads a cell such as 54/55.
func share(cell string) (float64, error) {
	least, most, _ := strings.Cut(cell, "/")
	l, err := number(least)
	if err != nil {
		return 0, err
	}
	m, err := number(most)
	return l / max(m, 1), err
}
