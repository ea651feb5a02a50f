// SPDX-License-Identifier: Apache-2.0

// Package redisson is the layout of Redisson, the Java client. Processes that acquire a lock with Redisson in
// Java, and processes that acquire a lock of that name in this layout, share it.
//
// Use it while services move from Java to Go one after the other; docs/migration.md has the steps.
// Without a service in Java leave it out: the library's own layout promises more.
//
//	lock := reentrant.New(session, "order/42", signalbox.WithLayout(redisson.Layout()))
//
// These kinds have it:
//
//   - reentrant: RLock, and with Fenced RFencedLock
//   - fair: RedissonFairLock
//   - rwlock: RReadWriteLock
//   - semaphore: RPermitExpirableSemaphore, and with semaphore.Plain RSemaphore
//   - countdown: RCountDownLatch
//
// The key is the name as Redisson has it, behind its NameMapper. WithPrefix does not apply to it,
// and WithHashedNames together with this layout is ErrBadOption. In a cluster a name is ErrBadName
// if its braces are not a hash tag: Redisson could not release such a lock.
//
// # Not guaranteed
//
// Some promises need more than Redisson's keys can store. In this layout:
//
//   - Tokens come from the server's clock alone: they rise as long as it is not set back. Holders
//     in Java have no tokens. But see Fenced.
//   - Holder.Since and Holder.Token are zero, and Holder.Label is the owner as Redisson writes it: the client,
//     and the thread. Holder.Session of a Java client is its UUID in the form of a session's ID.
//   - Waiters for a reentrant lock have no order: they try again after each message. Its Waiters returns ErrBadOption.
//   - A process that hands the lock over inside releases it after 1,024 times or 20 ms, even if no
//     other process is waiting.
//   - A ForceUnlock from Java is noticed by the next renewal.
//   - If a Java holder dies that gave no lease time, waiters wait for its client's
//     lockWatchdogTimeout, 30 s by default.
//   - Redisson's queue decides the order of a fair lock. If a waiter dies, on either side, the waiters behind
//     it wait for at least 5 minutes, as in Java, and as much again for each ticket that was ahead of it; see
//     FairLockWaitTimeout. Each waiter asks the server once a second. A Java lock() that throws because its
//     subscription failed leaves such a ticket behind: call it again in the same thread. Waiter.Since is zero, and
//     Waiter.Label is the owner. Do not take one name both as RLock and as RedissonFairLock: the RLock
//     excludes the other, but may overtake its queue.
//   - Readers of a read-write lock join other readers even if a writer is waiting, as in Java: a
//     writer is granted the lock only when there are no readers, and may starve. Redisson before 4.4 renews the
//     leases of other clients' readers with its own, even of readers that died. A Java reader that
//     renews makes the lock end a lockWatchdogTimeout later, so leases of readers beside it should
//     be no longer than that: use WithMaxHold, not a long WithFixedLease. Do not take one name both as
//     RLock and as RReadWriteLock.
//   - Permits are granted in no order among processes. Redisson counts those that are free in one key, and lists those
//     that are held in another: if one of the two is deleted or restored alone, too few or too many are granted.
//     Delete both then.
//   - A latch has neither ids nor rounds in Java. So each CountDown counts, even a repeated one, and all rounds have
//     the ID 1: a late CountDown counts in the round that runs then. No message opens a round early, but a
//     key that is lost or deleted does. A call without a reply is not repeated and returns ErrUnconfirmed. If the
//     next round starts just as Wait is called, Wait may wait for that one. Keys never end: countdown.Keep is
//     ErrBadOption.
//
// # Lists
//
// Package inspect lists a key if its type and its content are those of Redisson's locks, with these kinds:
//
//   - A hash with one owner: Fair if it has a queue, else Exclusive (reentrant or fair). A hash with a mode: RWLock.
//   - A number is a Semaphore if a second key beside it has holders of permits. Any other number may be a latch, or
//     another program's: it is listed as Number. Break ends permits by their ids, also those of Java; those of an
//     RSemaphore have no ids, and stay. A holder of a lock that acquires it again has the same hold for BreakSeen.
package redisson
