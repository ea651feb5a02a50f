// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// maxFences is how many fences may be on their way to a waiter. The others will not come any more.
const maxFences = 16

// The messages of anonymous rounds: a round has opened; a round was started, or deleted.
const messageOpened, messageChanged = "0", "1"

// fenceLocked returns a fence for a poll, if a waiter for an anonymous round has not received one: a unique number
// that Redisson ignores.
func (w *watchedLatch) fenceLocked() (fence string) {
	if !w.registry.scripts.AnonymousRounds || w.subject.IsUnsubscribedLocked() {
		return ""
	}
	for _, r := range w.rounds {
		if r.fenced {
			continue
		}
		if fence == "" {
			fence = strconv.FormatInt(2+rand.Int64N(math.MaxInt64-2), 10)
		}
		r.fences = append(r.fences[max(0, len(r.fences)-maxFences+1):], fence)
	}
	return fence
}

// onAnonymousLocked lets a poll confirm that a round has opened. The message may be the late end of the round before, or of
// the latch of that name in another database, which has the same channel. A poll that finds the latch running publishes its
// fence, and messages of a channel keep their order. So a fence behind the end of a round says that a new round has begun, if a
// start was reported between, and else that the end was another's. Fences of others are worth no poll: they would cause each
// other.
func (w *watchedLatch) onAnonymousLocked(message string) (poll bool) {
	switch message {
	case messageOpened:
		for _, r := range w.rounds {
			if r.fenced { // only a fence of a poll from here on counts
				r.reported, r.changed, r.fenced, r.fences = true, false, false, nil
			}
		}
		return len(w.rounds) > 0
	case messageChanged:
		for _, r := range w.rounds {
			r.changed = true
		}
		return true
	}
	for _, r := range w.rounds {
		switch {
		case !slices.Contains(r.fences, message):
		case r.reported && r.changed:
			w.endLocked(r, nil)
		default:
			r.fenced, r.reported = true, false
		}
	}
	return false
}
