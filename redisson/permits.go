// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"

	"github.com/signalbox-go/signalbox/internal/proto"
)

const (
	// maxPermits bounds the permits of one hold, each of which is stored in a set: a thousand keep
	// the server busy for about a millisecond. Redisson removes all expired permits in one command, and
	// cannot if there are more than some 7,000.
	maxPermits = 1000
	// permitSize is the length of the id of a permit.
	permitSize = 16
	// permitsSuffix makes the key of the permits that are held, and plainSuffix that of a semaphore without owners.
	permitsSuffix, plainSuffix = "timeout", "signalbox"
)

// semaphore returns RPermitExpirableSemaphore, whose held permits are in a key with that suffix.
func semaphore(registry, timeouts string) *proto.SemaphoreTable {
	return &proto.SemaphoreTable{
		Table: proto.Table{
			RegistryName: registry,
			NamesOf: func(n proto.Set) proto.Set {
				return proto.Set{Holder: suffixed(n.Holder, timeouts), More: n.Holder, Slot: n.Slot}
			},
			Keys: func(n proto.Set) proto.Keys {
				return proto.Keys{All: []string{n.More, n.Holder}, Channel: prefixed("redisson_sc", n.More)}
			},
			Renew: permitRenewScript,
			Retry: &proto.Retry{Acquire: permitAcquireScript, Release: permitReleaseScript, NewHold: newPermits},
		},
		Split:         permitSplitScript,
		Resize:        permitResizeScript,
		Available:     permitAvailableScript,
		List:          permitListScript,
		Force:         permitForceScript,
		HoldSize:      permitSize,
		AvailableKeys: 2,
		MaxPermits:    maxPermits,
		Args:          []string{"1"},
		TotalKnown:    true,
		ParseHold:     parsePermit,
		SessionAlias:  func(session string) string { return hex.EncodeToString([]byte(permitsOf(session))) },
		AliasInHold:   aliasOf,
	}
}

// plainSemaphore returns RSemaphore, which is only a number. The permits of this library are also in a key
// that Redisson does not know: so they can expire, and each step can be sent twice. Those of others are
// recorded nowhere, so their number is unknown.
func plainSemaphore(registry string) *proto.SemaphoreTable {
	s := semaphore(registry, plainSuffix)
	s.TotalKnown, s.Args = false, []string{"0"}
	s.Force, s.SessionAlias, s.AliasInHold = nil, nil, nil // no process ends these by force
	return s
}

// newPermits returns what the ids of a hold's permits begin with: 4 bytes of its session, by which that knows them, and 64
// bits drawn for this attempt. The scripts put a number of 4 bytes behind it for each permit.
func newPermits(session string) string {
	var id [12]byte
	copy(id[:], permitsOf(session))
	_, _ = rand.Read(id[4:]) // crypto/rand.Read never fails: it ends the process instead
	return string(id[:])
}

func permitsOf(session string) string {
	var raw [16]byte
	_, _ = base64.RawURLEncoding.Decode(raw[:], []byte(session)) // made by encoding 16 bytes
	return string(raw[:4])
}

// aliasOf returns the alias of the session that made the id of a permit. A permit of Java has an id that is
// random throughout.
func aliasOf(id string) string {
	if len(id) != permitSize || id[12:14] != "\x00\x00" {
		return ""
	}
	return hex.EncodeToString([]byte(id[:4]))
}

// parsePermit reads the id of one permit, as Redisson writes it; a session that it names is its own.
func parsePermit(session, id string) (permits int, label, owner string) {
	label = hex.EncodeToString([]byte(id))
	if len(id) == permitSize && id[:4] == permitsOf(session) {
		owner = session
	}
	return 1, label, owner
}
