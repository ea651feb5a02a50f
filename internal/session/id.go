// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/signalbox-go/signalbox/internal/layout"
)

func newID() (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(random[:]), nil
}

// GrantsChannel returns the channel on which this session and others are notified of grants, without the id of the session at
// its end. Without slots it is one channel for all locks.
func (s *Session) GrantsChannel() string { return s.grantsChannel }

// NewHold returns a hold of the library's own layout that was never used before.
func (s *Session) NewHold() string { return s.NewHoldIn(layout.Native()) }

// NewTicket returns a hold of the library's own layout that was never used before, with a suffix.
func (s *Session) NewTicket(suffix string) string {
	return layout.NativeTicket(s.id, s.serial.Add(1), suffix)
}

// NewHoldIn returns a hold that was never used before.
func (s *Session) NewHoldIn(l *layout.Layout) string { return l.Hold(s.id, s.serial.Add(1)) }

// NewAttempt returns the part of a hold id that distinguishes a hold of this session from its others, and
// from those of copies of the session, whose ids precede it: the last 19 characters of a new hold id.
func (s *Session) NewAttempt() string { return s.NewHold()[len(s.id):] }
