// SPDX-License-Identifier: Apache-2.0

// Package inspect lists which names are in use at a server, by which sessions, and which sessions wait for them.
//
// Use it for tools and for people. A program that needs to know whether it holds something asks its
// lease.
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
//  1. Names yields each name that is in use during the whole loop. A name that is acquired or released
//     meanwhile may be missing.
//  2. Names and Name change nothing at the server.
//  3. Names and List take at most a tenth of the time of each server, and 50 ms, however many keys it has. All loops and lists
//     of a session share that. A request lets the server examine 500 keys.
//  4. A node that fails hides no other node's names: its error has its address, and the loop continues.
//  5. Break ends the holds of a name by force; a hold is the server's entry for a holder. It ends only
//     holds that existed when it read them.
//  6. Break changes only keys that it recognises as those of locks. In a layout of others locks may not differ from
//     other keys: its package says what Break does there.
//
// # Not promised
//
// One moment: entries are read a page at a time, and each may be out of date when it is yielded. An order: sort what you
// show.
//
// What is not in use is left out: released names, although the server keeps their last token for a while;
// latches without a running round; semaphores without holders and waiters; groups of shards without members. Goroutines are not seen: an entry has
// the sessions that hold or wait, and neither the goroutine that has the lock nor those that wait in a session.
//
// # Layouts
//
// Names lists the names of one layout: the session's default, which signalbox.WithDefaults sets. In a layout of other
// clients the names are the keys themselves, and a key is listed if its type and its content are those of their locks. The
// package of the layout says which kinds that distinguishes, and what Break does.
//
// A session with signalbox.WithHashedNames lists digests. So does any session that meets names that others hash.
//
// # Shards
//
// The entry of a group of shards has its members. Who owns which shard is shards.Group.View, and shards.Group.Move moves one. To
// end one member by force, call BreakSeen with an entry that has that Holder alone: its shards go to others when
// their functions have returned, or when its lease ends, and its process joins again.
//
// # Rights and cost
//
// The rights of docs/security.md, and scan, getrange, info and dbsize.
//
// Redis and Valkey have no index of names, so a list has to examine all keys of the database. For each million keys that
// takes the server about a second, and the list about ten. Each name in use adds one or two short calls.
// If a server has many other keys, give the locks a database or a server of their own.
//
// Names is one such round. List does rounds in the background and reads the names that it knows each time that it is asked:
// their holders are fresh at once, and Snapshot.Age says how late a new name may appear.
package inspect
