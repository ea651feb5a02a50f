// SPDX-License-Identifier: Apache-2.0

package semaphore

// Waits reports whether somebody of the session is known to wait, so that others queue behind.
func (m *Semaphore) Waits() bool { return m.kind.Passing.Relays.Busy(m.keys.Holder) }

// Relays answers how many semaphores of the session are in use.
func (m *Semaphore) Relays() int { return m.kind.Passing.Relays.Len() }
