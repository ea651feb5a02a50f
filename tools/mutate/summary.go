// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// score counts the mutants of a package.
type score struct{ killed, hung, survived, other, missing int }

func (s *score) add(status string) {
	switch status {
	case killed:
		s.killed++
	case hung:
		s.hung++
	case survived:
		s.survived++
	case "":
		s.missing++
	default:
		s.other++
	}
}

func (s *score) row(name string) string {
	percent := "-"
	if all := s.killed + s.hung + s.survived; all > 0 {
		percent = fmt.Sprintf("%.1f %%", 100*float64(s.killed+s.hung)/float64(all))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s |\n", name, s.killed, s.hung, s.survived, s.other, s.missing, percent)
}

// summarize prints the score of each package that has results: how many percent of the mutants that
// build were killed or hung.
func summarize(w io.Writer, list, results string) error {
	mutants, err := readList(list)
	if err != nil {
		return err
	}
	found, err := readResults(results)
	if err != nil {
		return err
	}
	shown, rows := make(map[string]bool), make(map[string]*score)
	totals := map[string]*score{"all of Go": {}, "all of Lua": {}}
	for _, m := range mutants {
		if len(found[m.key()]) > 0 {
			shown[m.group()] = true
		}
		total := totals["all of Go"]
		if m.isLua() {
			total = totals["all of Lua"]
		}
		if rows[m.group()] == nil {
			rows[m.group()] = new(score)
		}
		rows[m.group()].add(verdict(found[m.key()]))
		total.add(verdict(found[m.key()]))
	}
	var table strings.Builder
	table.WriteString("| package | killed | hung | survived | gone or broken | not run | score |\n|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if shown[name] {
			table.WriteString(rows[name].row(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		table.WriteString(totals[name].row("**" + name + "**"))
	}
	_, err = io.WriteString(w, table.String())
	return err
}
