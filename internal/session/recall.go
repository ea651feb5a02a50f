// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/signalbox-go/signalbox/internal/proto"
)

// RecallRegistry is a KindRegistry whose holds may be recalled, or want to learn that another session waits: the message is the same.
type RecallRegistry interface {
	// Recall is called with the id of an attempt, within the session, whose lock another session wants.
	Recall(attempt string)
	// RecallAll is called when recalls no longer arrive.
	RecallAll()
	// Resubscribed is called when recalls arrive again, after a time in which some may have been lost.
	Resubscribed()
}

// IdleRegistry is a KindRegistry that keeps holds while no goroutine uses them.
type IdleRegistry interface {
	IdleLocks() int // counts them
}

// RecalledHold is a LocalHold that may be kept while no goroutine uses it.
type RecalledHold interface {
	LocalHold
	// OnRecall ends the hold if no goroutine uses it, and lets it be kept no more: another session wants the lock, or may do so
	// without this one learning of it. It is called without a lock, perhaps more than once, and must not block.
	OnRecall()
}

// recallPrefix begins a message that is a recall; the id of the attempt follows. No key of the library's own layout is
// like that, and in a layout of others such a key costs a hint.
const recallPrefix, recallSize = "recall:", len("recall:") + proto.HoldSize - proto.SessionSize

// IdleLocks returns how many holds no goroutine uses. s may be no session.
func (s *Session) IdleLocks() (n int) {
	if s == nil {
		return 0
	}
	for _, p := range s.allRegistries() {
		if r, keeps := p.(IdleRegistry); keeps {
			n += r.IdleLocks()
		}
	}
	return n
}

func (s *Session) recallRegistries() (all []RecallRegistry) {
	for _, p := range s.allRegistries() {
		if r, is := p.(RecallRegistry); is {
			all = append(all, r)
		}
	}
	return all
}
