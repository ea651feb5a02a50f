// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"github.com/signalbox-go/signalbox/internal/settings"
)

const (
	// idSize is the length of a session's id: 16 random bytes.
	idSize = 22
	// holdSize is the length of a hold's id: the session's, and that of the attempt.
	holdSize = idSize + 19
	// MaxHolder is the length of the longest holder key: layout, kind, stamp, hold, mark, label.
	MaxHolder = 4 + 16 + holdSize + idSize + settings.MaxLabel
)

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

// NewHold answers a hold id that was never used before: the session's id, the number of the
// attempt, and 64 bits drawn from the system for this attempt, so that two copies of one
// process, restored from one snapshot, share none. 41 characters.
func (s *Session) NewHold() string {
	var raw [14]byte
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], s.serial.Add(1))
	copy(raw[:6], number[2:])
	_, _ = rand.Read(raw[6:]) // crypto/rand.Read never fails: it ends the process instead
	var id [holdSize]byte
	copy(id[:], s.id)
	base64.RawURLEncoding.Encode(id[idSize:], raw[:])
	return string(id[:])
}
