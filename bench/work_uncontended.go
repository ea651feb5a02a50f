// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"
)

// uncontended is one goroutine that locks and unlocks, without others.
func uncontended(b *bench) ([]table, error) {
	again, err := b.sideBySide(topology{1, 1, func(ctx context.Context, p process, _ int) locker {
		return p.locker(ctx, "again")
	}})
	if err != nil {
		return nil, err
	}
	fresh, err := b.sideBySide(topology{1, 1, func(_ context.Context, p process, _ int) locker {
		return &freshNames{process: p}
	}})
	if err != nil {
		return nil, err
	}
	return []table{
		b.loopTable("Uncontended, 1 goroutine, the same name each time", again),
		b.loopTable("Uncontended, 1 goroutine, a fresh name each time", fresh),
	}, nil
}

// sideBySide measures a crew whose goroutines do not meet.
func (b *bench) sideBySide(t topology) ([]series, error) {
	return b.interleave(b.chosen, b.scale.rounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, t, b.scale.window)
	})
}

// freshNames is a locker that uses each name once.
type freshNames struct {
	process process
	n       int
}

// Lock implements locker.
func (f *freshNames) Lock(ctx context.Context) (unlock func() error, err error) {
	f.n++
	return f.process.locker(ctx, "fresh/"+strconv.Itoa(f.n)).Lock(ctx)
}
