// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"math/rand/v2"
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

// Messages can be lost, so whatever waits for one polls as well, with these pauses. Only queues spread their polls in a way of
// their own: see nextPollLocked there.
const (
	// PollInterval is the pause between the polls of one name while a session waits for few names.
	PollInterval = time.Second
	// UnsubscribedPollInterval is the same while messages do not arrive, or not all of them.
	UnsubscribedPollInterval = 100 * time.Millisecond
	// PollCost is how much each further name adds to the pause: the budget is a thousand polls a second.
	PollCost = time.Millisecond
	// MaxPollInterval is the longest pause, however many names a session waits for.
	MaxPollInterval = 10 * time.Second
)

// ScaledInterval returns the pause between the polls of one name in a session that waits for so many names. base is the
// pause while they are few: PollInterval or UnsubscribedPollInterval.
func ScaledInterval(base time.Duration, names int) time.Duration {
	return min(max(base, time.Duration(names)*PollCost), MaxPollInterval)
}

// JitteredInterval returns the time to the next poll: ScaledInterval, less up to a fifth of it at random.
func JitteredInterval(base time.Duration, names int) time.Duration {
	every := ScaledInterval(base, names)
	return every*4/5 + rand.N(every/5)
}

// unlimited is the time left of a hold whose end is not known.
const unlimited = -time.Millisecond

// nextPoll returns the time to the next poll of a lock that is held for left at the longest. Polls at the end
// of a holder's key are spread too: a process that dies may have held all of the locks.
func nextPoll(left, base time.Duration, names int) time.Duration {
	if left >= 0 && left < ScaledInterval(base, names) {
		return min(left+time.Millisecond+rand.N(time.Duration(names)*PollCost+1), MaxPollInterval)
	}
	return JitteredInterval(base, names)
}
