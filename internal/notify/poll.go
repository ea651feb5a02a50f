// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxPolls bounds the locks of one poll script, as maxKeys bounds a renewal.
	maxPolls = 100
	// pollPatience is how long a batch of polls waits for its reply; then they count as failed and are
	// repeated.
	pollPatience = 2 * time.Second
)

// ScriptRunner runs polls, and knows the slots of keys; *wire.Runner is one.
type ScriptRunner interface {
	RunMany(ctx context.Context, calls []wire.Call) []wire.Outcome
	RunByKey(ctx context.Context, batch wire.KeyedCall) []wire.KeyedReply
	Clustered() bool
	Slot(key string) uint16
}

// pollAll polls the locks that are due in one tick, and wakes the waiters for which a try is worth it.
func (d *Dispatcher) pollAll(waits []*Wait) {
	ctx, cancel := errs.WithTimeout(d.ctx, pollPatience)
	defer cancel()
	byScript := make(map[*scripts.Script][]*Wait, 1)
	for _, w := range waits {
		byScript[w.target.Poll] = append(byScript[w.target.Poll], w)
	}
	for script, waits := range byScript {
		batch := wire.KeyedCall{Script: script, Shared: []string{waits[0].target.WaiterID}, MaxKeys: maxPolls}
		for _, w := range waits {
			batch.Keys = append(batch.Keys, w.target.Key)
		}
		for i, result := range d.server.RunByKey(ctx, batch) {
			waits[i].onPollReply(result)
		}
	}
}

// onPollReply handles the reply to a poll.
func (w *Wait) onPollReply(result wire.KeyedReply) {
	switch {
	case result.Err != nil && wire.Judge(result.Err) == wire.Final:
		w.wake() // its own try returns the reason
	case result.Err != nil:
		w.polledHeld(MaxPollInterval, result.Err) // no reply: again in a while
	case result.Value == -2:
		w.wake()
	default:
		w.polledHeld(time.Duration(result.Value)*time.Millisecond, nil)
	}
}
