// SPDX-License-Identifier: Apache-2.0

package rwlock

// Waiting returns how many readers wait in the session, with a ticket or behind one that asks.
func (l *Lock) Waiting() int {
	q := l.registry.LocalQueues.Use(l.writer.Names.Holder)
	defer q.Done(l.writer.Names.Holder)
	return q.Waiters(l.reader.Request.ShareKey)
}
