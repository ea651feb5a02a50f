// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/signalbox-go/signalbox/reentrant"
)

// enterAgain is what only signalbox does: the holder enters its lock again and unlocks.
func enterAgain(b *bench) ([]table, error) {
	own := only(b.chosen, ownName)
	t := table{
		title:  "Enter again and unlock",
		note:   "No round trip. Depth is how many locks the context carries; the one entered again is the outermost, found last.",
		header: []string{"depth", "time/op", "allocs/op", "B/op"},
	}
	for range own {
		for _, depth := range []int{1, 10} {
			row, err := b.enterAt(depth)
			if err != nil {
				return nil, err
			}
			t.rows = append(t.rows, row)
		}
	}
	return []table{t}, nil
}

// enterAt measures with a context that carries depth locks.
func (b *bench) enterAt(depth int) (row []string, err error) {
	started, err := signalboxLock().start(setup{addr: b.server.Addr(), lease: b.scale.lease})
	if err != nil {
		return nil, err
	}
	p, ok := started.(*signalboxProcess)
	if !ok {
		return nil, errors.New("no session")
	}
	defer func() { err = errors.Join(err, p.close()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range depth {
		lease, err := reentrant.New(p.session, numbered("entered/", i)).Lock(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lease.Unlock()) }()
		ctx = lease.Enter(ctx) //nolint:fatcontext // the nesting is what is measured
	}
	outermost := reentrant.New(p.session, numbered("entered/", 0))
	var failed error
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if failed = enterOnce(ctx, outermost); failed != nil {
				return
			}
		}
	})
	perOp := float64(result.T.Nanoseconds()) / float64(max(result.N, 1))
	return []string{
		number(float64(depth)), span(perOp / 1e9),
		number(float64(result.AllocsPerOp())), number(float64(result.AllocedBytesPerOp())),
	}, failed
}

func enterOnce(ctx context.Context, lock *reentrant.Lock) error {
	lease, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock()
}
