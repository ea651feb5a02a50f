// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"math/rand/v2"
	"time"
)

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
