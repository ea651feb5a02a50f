// SPDX-License-Identifier: Apache-2.0

package testkit

import "time"

// Embedded is what KeepTime needs of an embedded server.
type Embedded interface {
	TryLock() bool
	Unlock()
	SetTime(now time.Time)
}

// KeepTime sets the clock of an embedded server before a command. A script holds the server's lock and does not call it, so no key
// expires while one runs.
func KeepTime(server Embedded) {
	if server.TryLock() {
		server.Unlock()
		server.SetTime(time.Now())
	}
}
