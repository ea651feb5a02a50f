// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

// kind is what the session knows read-write locks as.
const kind = "rwlock"

// realm is what one session has of the read-write locks of one layout.
type realm struct {
	acquire.Kind

	readers, writers hold.Realm

	mu struct {
		sync.Mutex
		rooms map[roomKey]*room // those that somebody is in, or waits for
	}
}

// roomKey is what readers of one room have in common.
type roomKey struct {
	holder string
	terms  session.Terms
}

func realmOf(s *session.Session, l *layout.Layout) *realm {
	return session.PartOf(s, l.RWLock.Realm, func() *realm {
		r := &realm{
			Kind:    acquire.NewKind(s, l, &l.RWLock.Ground, nil),
			readers: hold.Realm{Kind: kind}, writers: hold.Realm{Kind: kind},
		}
		r.mu.rooms = make(map[roomKey]*room)
		return r
	})
}

// Refuse implements session.Part.
func (r *realm) Refuse(err error) {
	r.mu.Lock()
	rooms := slices.Collect(maps.Values(r.mu.rooms))
	r.mu.Unlock()
	for _, m := range rooms {
		m.refuse(err)
	}
	r.Kind.Refuse(err)
}

// use returns the room of key, which create makes where nobody is in it, and counts the caller in.
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
