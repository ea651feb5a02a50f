// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
)

// idSize is the length of a session's id: 16 random bytes.
const idSize = 22

func newID() (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(random[:]), nil
}

// NewHold answers a hold id that was never used before: the session's id, the number of the
// attempt, and 64 bits drawn from the system for this attempt, so that two copies of one
// process, restored from one snapshot, share none. 41 characters.
func (s *Session) NewHold() string {
	var raw [14]byte
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], s.serial.Add(1))
	copy(raw[:6], number[2:])
	_, _ = rand.Read(raw[6:]) // crypto/rand.Read never fails: it ends the process instead
	var id [idSize + 19]byte
	copy(id[:], s.id)
	base64.RawURLEncoding.Encode(id[idSize:], raw[:])
	return string(id[:])
}
