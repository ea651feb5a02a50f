// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxPolls bounds the locks of one poll script, as maxKeys bounds a renewal.
	maxPolls = 100
	// lookPatience is how long a batch of polls waits for its reply; then they count as failed and are
	// repeated.
	lookPatience = 2 * time.Second
)

// Server runs polls, and knows about slots; *wire.Runner is one.
type Server interface {
	RunMany(ctx context.Context, calls []wire.Call) []wire.Outcome
	Clustered() bool
	Slot(key string) uint16
}

// lookAll polls the locks that are due in one tick, and wakes the waiters for which a try is worth it.
func (d *Dispatcher) lookAll(waits []*Wait) {
	ctx, cancel := errs.WithTimeout(d.ctx, lookPatience)
	defer cancel()
	size := maxPolls
	if d.clustered {
		size = 1
	}
	byScript := make(map[*scripts.Script][]*Wait, 1)
	for _, w := range waits {
		byScript[w.target.Look] = append(byScript[w.target.Look], w)
	}
	for script, waits := range byScript {
		var calls []wire.Call
		for chunk := range slices.Chunk(waits, size) {
			call := wire.Call{Script: script, Args: []string{chunk[0].target.Mark}}
			for _, w := range chunk {
				call.Keys = append(call.Keys, w.target.Key)
			}
			calls = append(calls, call)
		}
		for n, outcome := range d.server.RunMany(ctx, calls) {
			for i, w := range waits[n*size : min((n+1)*size, len(waits))] {
				w.looked(outcome, i)
			}
		}
	}
}

// looked handles the i-th reply of a batch.
func (w *Wait) looked(outcome wire.Outcome, i int) {
	switch {
	case outcome.Err != nil && wire.Judge(outcome.Err) == wire.Final:
		w.wake() // its own try returns the reason
	case outcome.Err != nil:
		w.Held(PollCeiling) // no news: again in a while
		w.setLastError(outcome.Err)
	case outcome.Reply.Int(i) == -2:
		w.wake()
	default:
		w.Held(time.Duration(outcome.Reply.Int(i)) * time.Millisecond)
	}
}
