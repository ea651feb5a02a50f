// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/tenure"
	"github.com/signalbox-go/signalbox/scripts"
)

// kind is what the session knows read-write locks as.
const kind = "rwlock"

// realm is what one session has of read-write locks.
type realm struct {
	tenure.Kind

	readers, writers hold.Realm

	mu struct {
		sync.Mutex
		rooms map[roomKey]*room // those that somebody is in, or waits for
	}
}

// roomKey is what readers of one room have in common.
type roomKey struct {
	holder string
	lease  time.Duration
}

func realmOf(s *session.Session) *realm {
	return session.PartOf(s, kind, func() *realm {
		r := &realm{readers: hold.Realm{Kind: kind}, writers: hold.Realm{Kind: kind}}
		r.Kind = tenure.Kind{
			Lines: line.New(s, line.Kind{
				Enter:    scripts.RWLockEnter,
				Look:     scripts.RWLockLook,
				Leave:    scripts.RWLockLeave,
				Drop:     scripts.HoldsDrop,
				Labelled: true,
			}),
			Renew: scripts.HoldsRenew,
			Named: (*line.Attempt).Name,
		}
		r.mu.rooms = make(map[roomKey]*room)
		return r
	})
}

// keysOf answers what the lock is on the server.
func keysOf(b *primitive.Base) line.Keys {
	n := b.Names
	return line.Keys{
		Holder: n.Holder, Lives: n.Lives(), All: []string{n.Holder, n.Line(), n.Readers(), n.Lives()},
		Grants: b.Grants(), Slot: b.Slot,
	}
}

// use answers the room of key, which create makes where nobody is in it, and counts the caller in.
func (r *realm) use(key roomKey, create func() *room) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.mu.rooms[key]
	if m == nil {
		m = create()
		r.mu.rooms[key] = m
	}
	m.users++
	return m
}

// done counts out of the room of key a caller, or a hold that is over.
func (r *realm) done(key roomKey, m *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(r.mu.rooms, key)
	}
}

// stays counts in a hold that a caller leaves behind in the room.
func (r *realm) stays(m *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.users++
}
