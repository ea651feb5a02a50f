// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox/dev/tools/mutate/worker"
)

// keep writes the verdict of each mutant of the list to a file of the repository: what became of it, in which stage, and which cell
// noticed it. A mutant without a result keeps its verdict. A mutant that was killed before and lives now is an error.
func keep(list, results, verdicts string) error {
	_, mutants, err := readList(list)
	if err != nil {
		return err
	}
	found, err := readResults(results)
	if err != nil {
		return err
	}
	before, err := readResults(verdicts)
	if err != nil {
		return err
	}
	var rows []string
	var escaped error
	for _, m := range mutants {
		last := final(before[m.key()])
		if now := final(found[m.key()]); now.status != "" {
			if last.isKilled() && !now.isKilled() {
				escaped = errors.Join(escaped, fmt.Errorf("no test notices any more: %v", m))
			}
			last = now
		}
		if m.Reason != "" {
			last = result{status: equivalent}
		}
		if last.status != "" {
			last.key, last.tried = m.key(), "-" // how long it took differs between runs
			rows = append(rows, last.String()+"\n")
		}
	}
	return errors.Join(write(verdicts, []byte(strings.Join(rows, ""))), escaped)
}

// score counts the mutants of a package.
type score struct{ killed, survived, equivalent, other, missing int }

func (s *score) add(status string) {
	switch status {
	case worker.Killed, worker.Hung, worker.Spoilt, crashed:
		s.killed++
	case worker.Survived, worker.Unreached:
		s.survived++
	case equivalent:
		s.equivalent++
	case "":
		s.missing++
	default:
		s.other++
	}
}

func (s *score) row(name string) string {
	percent := "-"
	if all := s.killed + s.survived; all > 0 {
		percent = fmt.Sprintf("%.1f %%", 100*float64(s.killed)/float64(all))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s |\n", name, s.killed, s.survived, s.equivalent, s.other, s.missing, percent)
}

// summarize prints the score of each package, without those of which nothing ran: how many percent were killed of those that build and
// are not equivalent. Below stand those that survived, and those that are equivalent with the reason.
func summarize(w io.Writer, list, results string) error {
	_, mutants, err := readList(list)
	if err != nil {
		return err
	}
	found, err := readResults(results)
	if err != nil {
		return err
	}
	shown, rows := make(map[string]bool), make(map[string]*score)
	totals := map[string]*score{"all of Go": {}, "all of Lua": {}}
	var survivors, equivalents strings.Builder
	for _, m := range mutants {
		status, total := final(found[m.key()]).status, totals["all of Go"]
		if m.isLua() {
			total = totals["all of Lua"]
		}
		if rows[m.group()] == nil {
			rows[m.group()] = new(score)
		}
		switch {
		case m.Reason != "":
			status = equivalent
			fmt.Fprintf(&equivalents, "* `%s` %s: `%s` becomes `%s`: %s\n", m.File, m.Function, m.Text, m.New, m.Reason)
		case status != "":
			shown[m.group()] = true
		}
		if status == worker.Survived || status == worker.Unreached {
			fmt.Fprintf(&survivors, "* %s: `%s` %s: `%s` becomes `%s`\n", status, m.File, m.Function, m.Text, m.New)
		}
		rows[m.group()].add(status)
		total.add(status)
	}
	var table strings.Builder
	table.WriteString("| package | killed | survived | equivalent | gone or broken | not run | score |\n|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if shown[name] {
			table.WriteString(rows[name].row(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		table.WriteString(totals[name].row("**" + name + "**"))
	}
	for _, part := range []string{survivors.String(), equivalents.String()} {
		if part != "" {
			table.WriteString("\n" + part)
		}
	}
	_, err = io.WriteString(w, table.String())
	return err
}
