// SPDX-License-Identifier: Apache-2.0

// Package inspect lists which names are in use at a server, by which sessions, and which sessions wait for them.
//
//	for entry, err := range inspect.Names(ctx, session, "order/") {
//		if err != nil {
//			log.Print(err) // the loop continues
//			continue
//		}
//		fmt.Println(entry.Name, entry.Kind, entry.HolderCount, entry.WaiterCount)
//	}
//
// It is for people, for monitoring and for tools. Only a lease says that something is held.
//
// # Guarantees
//
//  1. Names yields each name that is in use from the beginning of the loop to its end.
//  2. Names and Name change nothing at the server.
//  3. No request blocks the server for more than about a millisecond, however many keys the server
//     has.
//  4. A node that fails hides no other node's names: its error has its address, and the loop continues.
//  5. Break ends the holds of a name by force; a hold is the server's entry for a holder. It changes only
//     keys that it recognises as those of locks, and ends only holds that existed when it read them, not
//     those that begin later. The exception is the layout SetNX (see below).
//
// # Not promised
//
// One moment: entries are read a page at a time, and each may be out of date when it is yielded. An order: sort what you
// show.
//
// What is not in use is left out: released names, although the server keeps their last token for a while;
// latches without a running round; semaphores without holders and waiters. Goroutines are not seen: an entry has
// the sessions that hold or wait, and neither the goroutine that has the lock nor those that wait in a session.
//
// # Layouts
//
// Names lists the names of one layout, that of the session's own locks. With WithLayout(Redisson()) among its
// defaults the names are the keys themselves, and a key is listed if its type and its content are those of
// Redisson's locks:
//
//   - A hash with one owner is a lock: Fair if it has a queue, else Exclusive. A hash with a mode is an RWLock.
//   - A number is a Semaphore if a second key beside it has holders of permits. Any other number may be a latch, or
//     another program's: it is listed as Number. Break ends permits by their ids; those of an RSemaphore have no ids,
//     and stay.
//
// With WithLayout(SetNX()) among its defaults Names lists what sessions of this library hold; the values of other clients are
// random, so their locks do not differ from other keys. Name and Break take any string key of that name for a
// lock, even if it belongs to another program. Break deletes it, so name only keys that are locks.
//
// A session with signalbox.WithHashedNames lists digests. So does any session that meets names that others hash.
//
// # Rights and cost
//
// The rights of docs/security.md, and scan and getrange. A thousand keys cost the server one SCAN and one or two
// pipelines, however many of them are names.
package inspect
