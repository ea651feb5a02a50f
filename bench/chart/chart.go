// SPDX-License-Identifier: Apache-2.0

// Package chart draws the picture of the README from a table of docs/benchmarks.md.
package chart

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"
)

// Title is the section whose table is drawn.
const Title = "100 processes of 1 goroutine, one lock"

// panel is a column of bars.
type panel struct {
	column, title string
	value         func(cell string) (float64, error)
}

func panels() []panel {
	return []panel{
		{"ops/s", "operations a second", number},
		{"p99", "wait, p99: shorter is better", seconds},
		{"least/most served", "served, least to most", share},
	}
}

// Where things are, in pixels.
const (
	labels, width, rowHeight, top = 120, 250, 30, 74
	longest                       = 150 // bar
)

// Draw returns the picture, in SVG, of the table below Title in a page.
func Draw(page string) (string, error) {
	table, err := tableOf(page, Title)
	if err != nil {
		return "", err
	}
	height := top + rowHeight*(len(table)-1) + 16
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Helvetica,Arial,sans-serif" font-size="13" role="img" aria-label=%q>
  <style>.t{fill:#123;font-weight:bold}.s{fill:#456}.o{fill:#2f6fab}.r{fill:#b9c3cf}</style>
  <rect width="100%%" height="100%%" fill="#fafbfc"/>
  <text x="16" y="28" class="t">%s, without a pause</text>
`, labels+width*len(panels()), height, Title, Title)
	for i, p := range panels() {
		if err := p.draw(&b, table, labels+i*width); err != nil {
			return "", err
		}
	}
	for i, row := range table[1:] {
		fmt.Fprintf(&b, "  <text x=\"16\" y=\"%d\" class=\"s\">%s</text>\n", top+i*rowHeight+16, html.EscapeString(row[0]))
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// draw draws the bars of a panel at x.
func (p panel) draw(b *strings.Builder, table [][]string, x int) error {
	column := -1
	for i, name := range table[0] {
		if name == p.column {
			column = i
		}
	}
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
	fmt.Fprintf(b, "  <text x=\"%d\" y=\"56\" class=\"s\">%s</text>\n", x, p.title)
	for i, row := range table[1:] {
		class, y, length := "r", top+i*rowHeight, max(1, int(longest*values[i]/most))
		if strings.HasPrefix(row[0], "signalbox") {
			class = "o"
		}
		fmt.Fprintf(b, "  <rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"20\" class=\"%s\"/><text x=\"%d\" y=\"%d\" class=\"s\">%s</text>\n",
			x, y, length, class, x+length+6, y+15, html.EscapeString(row[column]))
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
