// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/settings"
)

// MaxHolder is the length of what a release says of a holder key, at the longest: layout, kind, stamp, hold, mark, label.
const MaxHolder = 4 + 16 + layout.MaxHold + layout.SessionSize + settings.MaxLabel

func newID() (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(random[:]), nil
}

// unmarked stands in a holder key where the session of a waiter stands otherwise.
const unmarked = "----------------------"

// Tail answers what stands behind a hold of this session in the holder key while nobody waits:
// the place of the mark, and the label.
func (s *Session) Tail() string { return s.tail }

// NewHold answers a hold of the library's own layout that was never used before.
func (s *Session) NewHold() string { return s.NewHoldIn(layout.Native()) }

// NewHoldIn answers a hold that was never used before.
func (s *Session) NewHoldIn(l *layout.Layout) string { return l.Hold(s.id, s.serial.Add(1)) }

// NewAttempt answers what tells a hold of this session from its others, and from those of the attempt's copies
// in other sessions, which stand before it: the last 19 characters of a new hold id.
func (s *Session) NewAttempt() string { return s.NewHold()[len(s.id):] }
