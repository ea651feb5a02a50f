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
//  1. A name that is in use while the loop runs, from its beginning to its end, is yielded.
//  2. Names and Name change nothing at the server.
//  3. No request blocks the server for more than about a millisecond, however many keys the server
//     has.
//  4. A node that fails hides no other node's names: its error has its address, and the loop continues.
//  5. Break changes only keys that it recognises as those of locks, and ends only holds that it has
//     found.
//
// # Not promised
//
// One moment: entries are read a page at a time, and each may be out of date when it is yielded. An order: sort what you
// show.
//
// What is not in use is left out: names that were released, of which the server keeps the last token for a while;
// latches without a round that counts; semaphores without holders and waiters. Processes that a
// session hands a lock over to inside are not seen, nor are goroutines that wait inside a session.
//
// # Layouts
//
// A session lists the layout of its locks. With WithLayout(Redisson()) among its defaults the names are the keys
// themselves, and a key is listed if its type and its content are those of Redisson's locks:
//
//   - A hash with one owner is a lock: Fair if it has a queue, else Exclusive. A hash with a mode is an RWLock.
//   - A number with permits beside it is a Semaphore. Any other number may be a latch, or another program's: it is
//     listed as Number.
//
// With WithLayout(SetNX()) among its defaults Names lists what sessions of this library hold; the values of other clients are
// random, so their locks do not differ from other keys. Name and Break take any text
// under that name for a lock: Break deletes it, so name only keys that are locks.
//
// A session with signalbox.WithHashedNames lists digests. So does any session that meets names that others hash.
//
// # Rights and cost
//
// The rights of docs/security.md, and scan and getrange. A thousand keys cost the server one SCAN and one or two
// pipelines, however many of them are names.
package inspect
