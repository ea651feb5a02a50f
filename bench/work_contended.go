// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// oneProcess is 64 goroutines of one process that want one lock.
func oneProcess(b *bench) ([]table, error) {
	all, err := b.contended(sharing(1, 64))
	return []table{b.loopTable("64 goroutines of one process, one lock", all)}, err
}

// processes is eight and a hundred processes that want one lock, with few and many goroutines.
func processes(b *bench) ([]table, error) {
	var tables []table
	for _, c := range []crew{sharing(8, 1), sharing(8, 2), sharing(8, 16), sharing(b.scale.crowd, 1), sharing(b.scale.crowd, 16)} {
		all, err := b.contended(c)
		if err != nil {
			return nil, err
		}
		tables = append(tables, b.loopTable(c.String()+", one lock", all))
	}
	return tables, nil
}

// grid is every crew that wants one lock, with every section: the worst case is among them.
func grid(b *bench) ([]table, error) {
	var tables []table
	for _, processes := range b.scale.gridProcesses {
		for _, each := range b.scale.gridGoroutines {
			for _, section := range b.scale.gridSections {
				c := crew{processes, each, func(ctx context.Context, p process, _ int) locker {
					return dwelling{p.locker(ctx, "shared"), section}
				}}
				all, err := b.interleave(locks(b.chosen), 1, func(impl implementation) (sample, error) {
					return b.closedLoop(impl, c, b.scale.contended)
				})
				if err != nil {
					return nil, err
				}
				tables = append(tables, b.loopTable(fmt.Sprintf("%v, sections of %v", c, section), all))
			}
		}
	}
	return tables, nil
}

// String implements fmt.Stringer.
func (c crew) String() string {
	text := fmt.Sprintf("%d processes of %d goroutines", c.processes, c.each)
	if c.each == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	return text
}

// gridSections are the sections of the grid.
func gridSections() []time.Duration {
	return []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond}
}

// contended measures a crew that wants one lock.
func (b *bench) contended(c crew) ([]series, error) {
	return b.interleave(locks(b.chosen), b.scale.contendedRounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, c, b.scale.contended)
	})
}
