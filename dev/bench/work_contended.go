// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// oneProcess is 64 goroutines of one process that want one lock.
func oneProcess(b *bench) ([]table, error) {
	all, err := b.contended(sharing(1, 64))
	return []table{b.loopTable("64 goroutines of one process, one lock", all)}, err
}

// processes is eight and a hundred processes that want one lock, with few and many goroutines.
func processes(b *bench) ([]table, error) {
	var tables []table
	for _, t := range []topology{sharing(8, 1), sharing(8, 2), sharing(8, 16), sharing(b.scale.crowd, 1), sharing(b.scale.crowd, 16)} {
		all, err := b.contended(t)
		if err != nil {
			return nil, err
		}
		tables = append(tables, b.loopTable(t.String()+", one lock", all))
	}
	return tables, nil
}

// String implements fmt.Stringer.
func (t topology) String() string {
	return counted(t.processes, "process", "processes") + " of " + counted(t.each, "goroutine", "goroutines")
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// contended measures a crew that wants one lock.
func (b *bench) contended(t topology) ([]series, error) {
	return b.interleave(locks(b.chosen), b.scale.contendedRounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, t, b.scale.contended)
	})
}
