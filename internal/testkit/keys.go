// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Keys are the keys that a name has at the server, in the library's own layout.
type Keys struct {
	Holds  []string // of the holders: of a lock, and of a semaphore
	Queues []string // of the waiters
	Stored []string // of a latch, and of the outcome of a once
}

// KeysOf returns the keys of a name in a session, or why it is not a name.
func KeysOf(s *signalbox.Session, name string) (Keys, error) {
	set, err := (*session.Session)(s).Names(layout.Native(), name)
	if err != nil {
		return Keys{}, err
	}
	return Keys{
		Holds: []string{set.Holder, set.Permits()},
		Queues: []string{
			set.Line(), set.Lives(), set.Writers(), set.Readers(), set.RWLives(), set.PermitsLine(), set.PermitsLives(),
		},
		Stored: []string{set.Latch(), set.Outcome()},
	}, nil
}

// Recheck makes the session ask the server whether its holds of these keys still exist, as the message of a ForceUnlock
// does. It does not wait for the reply.
func Recheck(s *signalbox.Session, keys Keys) {
	for _, key := range keys.Holds {
		(*session.Session)(s).Recheck(key)
	}
}
