// SPDX-License-Identifier: Apache-2.0

package rwlock

// InRoom returns how many callers and holds are in the room where the lock's readers meet, and how many of them wait
// for the leader.
func (l *Lock) InRoom() (users, waiting int) {
	l.realm.mu.Lock()
	defer l.realm.mu.Unlock()
	m := l.realm.mu.rooms[roomKey{holder: l.base.Names.Holder, terms: l.base.Set}]
	if m == nil {
		return 0, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.users, len(m.mu.waiting)
}

// Rooms returns how many rooms the lock's session has.
func (l *Lock) Rooms() int {
	l.realm.mu.Lock()
	defer l.realm.mu.Unlock()
	return len(l.realm.mu.rooms)
}

// ShareFor is for how long readers enter beside each other before the server is asked.
const ShareFor = shareFor
