// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// grid is every crew that wants one lock, with every section: the worst case is among them.
func grid(b *bench) ([]table, error) {
	hurried := *b
	hurried.scale.patience = 0 // the waiters of one cell would need a minute to be served
	var rows []gridRow
	for _, section := range b.scale.gridSections {
		for _, processes := range b.scale.gridProcesses {
			row := gridRow{section: section, processes: processes}
			for _, each := range b.scale.gridGoroutines {
				cell, err := hurried.gridCell(section, processes, each)
				if err != nil {
					return nil, err
				}
				row.cells = append(row.cells, cell)
			}
			rows = append(rows, row)
		}
	}
	return []table{b.gridTable(rows)}, nil
}

// gridRow is the cells of one section and so many processes, one for each number of goroutines.
type gridRow struct {
	section   time.Duration
	processes int
	cells     []gridCell
}

// gridCell is one crew with one section.
type gridCell struct {
	name   string
	all    []series
	failed string // a sentence for each lock of which a call failed
}

func (b *bench) gridCell(section time.Duration, processes, each int) (gridCell, error) {
	t := topology{processes, each, func(ctx context.Context, p process, _ int) locker {
		return holdingLocker{p.locker(ctx, "shared"), section}
	}}
	cell := gridCell{name: fmt.Sprintf("%v, section %v", t, section)}
	var err error
	cell.all, err = b.interleave(only(b.chosen, append(gridRivals(), ownName)...), 1, func(impl implementation) (sample, error) {
		one, err := b.closedLoop(impl, t, b.scale.gridWindow)
		if err != nil {
			cell.failed += fmt.Sprintf(" %s failed (%s): %v.", impl.name, cell.name, err)
			return sample{elapsed: b.scale.gridWindow, waits: new(waits), cutWaits: new(waits)}, nil
		}
		return one, nil
	})
	return cell, err
}

// gridRivals are what signalbox is compared with in the grid.
func gridRivals() []string { return []string{"rueidislock", "redislock", fairName} }

// gridFigure is one of the figures that are compared in each cell.
type gridFigure struct {
	title, worst string
	of           figure
	known        func(ours, theirs float64) bool // whether a ratio says something
	worse        func(a, b float64) bool
}

func (b *bench) gridFigures() []gridFigure {
	return []gridFigure{
		{
			"rate", "the lowest rate", rate,
			func(_, theirs float64) bool { return theirs > 0 },
			func(a, b float64) bool { return a < b },
		},
		{
			"p99", "the longest p99", longWait,
			func(ours, theirs float64) bool {
				shorter := min(ours, theirs)
				return shorter > 0 && shorter < b.scale.gridWindow.Seconds()
			},
			func(a, b float64) bool { return a > b },
		},
	}
}

// longWait is the p99 of the waits, those included that were cut short.
func longWait(s sample) float64 {
	all := *s.waits
	all.merge(s.cutWaits)
	return all.quantile(0.99).Seconds()
}

// ratio returns the figure of signalbox, divided by that of a rival.
func (c gridCell) ratio(rival string, f gridFigure) (ratio float64, ok bool) {
	ours, has := find(c.all, ownName)
	theirs, hasToo := find(c.all, rival)
	if !has || !hasToo {
		return 0, false
	}
	a, b := ours.median(f.of), theirs.median(f.of)
	if !f.known(a, b) {
		return 0, false
	}
	return a / b, true
}

// gridTable has a line for each rival, section, and number of processes.
func (b *bench) gridTable(rows []gridRow) table {
	t := table{
		title: "The grid: one lock, by processes, goroutines and section",
		note: fmt.Sprintf("The figures of signalbox, divided by those of the lock that is named first: of rates more is better, of "+
			"waits less. A column is for so many goroutines a process. Each cell is %v of each lock, once. A wait that the end "+
			"cuts short counts as far as it went; there is no ratio if that is the p99 of both. A lock of which a call fails has a rate of 0.", b.scale.gridWindow),
		header: []string{"beside", "section", "processes"},
	}
	for _, f := range b.gridFigures() {
		for i, each := range b.scale.gridGoroutines {
			title := strconv.Itoa(each)
			if i == 0 {
				title = f.title + ": " + title
			}
			t.header = append(t.header, title)
		}
	}
	for _, rival := range gridRivals() {
		for _, row := range rows {
			line := []string{rival, row.section.String(), strconv.Itoa(row.processes)}
			for _, f := range b.gridFigures() {
				for _, cell := range row.cells {
					line = append(line, cell.text(rival, f))
				}
			}
			t.rows = append(t.rows, line)
		}
		t.note += b.worstCells(rival, rows)
	}
	for _, row := range rows {
		for _, cell := range row.cells {
			t.note += cell.failed
		}
	}
	return t
}

func (c gridCell) text(rival string, f gridFigure) string {
	ratio, ok := c.ratio(rival, f)
	switch {
	case !ok:
		return none
	case ratio > 0 && ratio < 0.005:
		return "<0.01"
	}
	return share(ratio)
}

// worstCells names, for each figure, the cell in which signalbox is worst beside a rival.
func (b *bench) worstCells(rival string, rows []gridRow) string {
	var found []string
	for _, f := range b.gridFigures() {
		worst, name := 0.0, ""
		for _, row := range rows {
			for _, cell := range row.cells {
				if ratio, ok := cell.ratio(rival, f); ok && (name == "" || f.worse(ratio, worst)) {
					worst, name = ratio, cell.name
				}
			}
		}
		if name != "" {
			found = append(found, fmt.Sprintf("%s is %s (%s)", f.worst, share(worst), name))
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf(" Beside %s %s.", rival, strings.Join(found, ", and "))
}
