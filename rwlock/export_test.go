// SPDX-License-Identifier: Apache-2.0

package rwlock

// Waiting returns how many readers wait in the session, with a ticket or behind one that asks.
func (l *Lock) Waiting() int {
	q := l.registry.LocalQueues.Use(l.base.Names.Holder)
	defer q.Done(l.base.Names.Holder)
	return q.Waiters(l.readAcquirer.Request.ShareKey)
}
