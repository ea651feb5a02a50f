// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
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
	set, err := (*session.Handle)(s).Session().Names(layout.Native(), name)
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

// Epoch is the key that says since when a server has its data. A redlock gets no vote of a server that has had it for less
// than a lease.
type Epoch struct {
	Key, Value string
	Life       time.Duration
}

// EpochOf returns the epoch of a server of this session that has had its data for a week.
func EpochOf(s *signalbox.Session, now time.Time) Epoch {
	const week = 7 * 24 * time.Hour
	return Epoch{
		Key:   names.Epoch((*session.Handle)(s).Session().Settings.Prefix),
		Value: fmt.Sprintf("sb1e%016d%016d", now.Add(-week).UnixMicro(), now.UnixMicro()),
		Life:  week,
	}
}

// Recheck makes the session ask the server whether its holds of these keys still exist, as the message of a ForceUnlock
// does. It does not wait for the reply.
func Recheck(s *signalbox.Session, keys Keys) {
	for _, key := range keys.Holds {
		(*session.Handle)(s).Session().Recheck(key)
	}
}
