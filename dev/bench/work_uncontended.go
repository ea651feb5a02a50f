// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
)

// uncontended is goroutines of one process that lock and unlock, and never meet: each uses one name again and again, or a
// fresh name each time.
func uncontended(b *bench) ([]table, error) {
	again := b.chosen
	if len(only(again, ownName)) > 0 {
		again = append([]implementation{signalboxKept()}, again...)
	}
	names := []struct {
		title  string
		chosen []implementation
		locker func(ctx context.Context, p process, i int) locker
	}{
		{"the same name each time", again, func(ctx context.Context, p process, i int) locker { return p.locker(ctx, numbered("again/", i)) }},
		{"a fresh name each time", b.chosen, func(_ context.Context, p process, i int) locker {
			return &freshNames{process: p, prefix: numbered("fresh/", i) + "/"}
		}},
	}
	var tables []table
	for _, goroutines := range []int{1, 4, 16, 64} {
		for _, name := range names {
			all, err := b.sideBySide(name.chosen, topology{1, goroutines, name.locker})
			if err != nil {
				return nil, err
			}
			title := fmt.Sprintf("Uncontended, %s, %s", counted(goroutines, "goroutine", "goroutines"), name.title)
			tables = append(tables, b.uncontendedTable(title, all))
		}
	}
	return tables, nil
}

// uncontendedKinds is uncontended for the other kinds of lock of this project, with the same name each time.
func uncontendedKinds(b *bench) ([]table, error) {
	if len(only(b.chosen, ownName)) == 0 {
		return nil, nil
	}
	columns := append([]column{{"ops/s", medianOf(rate, number)}}, costColumns("op")...)
	columns = append(columns, waitColumns("wait p50")...)
	var tables []table
	for _, goroutines := range []int{1, 64} {
		t := topology{1, goroutines, func(ctx context.Context, p process, i int) locker { return p.locker(ctx, numbered("again/", i)) }}
		all, err := b.interleave([]implementation{writer(), sharedReader(), signalboxPermits(permits)}, b.scale.rounds, func(impl implementation) (sample, error) {
			return b.closedLoop(impl, t, b.scale.window)
		})
		if err != nil {
			return nil, err
		}
		title := fmt.Sprintf("Uncontended, other kinds, %s, the same name each time", counted(goroutines, "goroutine", "goroutines"))
		tables = append(tables, tabulate(title, "A lock object for each call, as above.", all, columns))
	}
	return tables, nil
}

// uncontendedTable has, beside the columns of a loop, what the server and the client need, divided by what they need for the
// limit.
func (b *bench) uncontendedTable(title string, all []series) table {
	return b.loopTable(title, all, column{"server to limit", toLimit(per(serverCPU))}, column{"client to limit", toLimit(per(clientCPU))})
}

// sideBySide measures a crew whose goroutines do not meet.
func (b *bench) sideBySide(chosen []implementation, t topology) ([]series, error) {
	return b.interleave(chosen, b.scale.rounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, t, b.scale.window)
	})
}

// freshNames is a locker that uses each name once.
type freshNames struct {
	process process
	prefix  string
	n       int
}

// Lock implements locker.
func (f *freshNames) Lock(ctx context.Context) (unlock func() error, err error) {
	f.n++
	return f.process.locker(ctx, f.prefix+strconv.Itoa(f.n)).Lock(ctx)
}
