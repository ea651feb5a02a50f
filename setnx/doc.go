// SPDX-License-Identifier: Apache-2.0

// Package setnx is the layout of a lock that other clients write by SET with NX and PX: the key is the name,
// its value is random, and it is released and renewed by scripts that compare the value. So signalbox
// shares locks with redsync on one pool, redislock, and code that does this by hand.
//
// Use it while services move to signalbox one after the other; docs/migration.md has the steps.
// Without another client leave it out: the library's own layout promises more.
//
//	lock := reentrant.New(session, "order/42", signalbox.WithLayout(setnx.Layout()))
//
// Package reentrant has the layout; other kinds return ErrBadOption. The key is the name as the other clients
// have it, with their prefix. WithPrefix does not apply to it, and WithHashedNames together with this
// layout is ErrBadOption. So are WithTokenFloor and WithFirstLease, for which the key has no room.
//
// # Guarantees
//
// Exclusion, renewal, re-entry and ForceUnlock are as promised for the library's own layout.
//
// # Not guaranteed
//
// These promises need more than a value can store. In this layout:
//
//   - Waiters have no queue. They try when a session of this library released the lock, and poll
//     ten times a second, because other clients release it without a message. A process that
//     always comes first keeps the others out.
//   - Tokens come from the server's clock alone: they rise as long as it is not set back. Holds
//     of other clients have no token.
//   - Holder.Since and Holder.Token are zero. For other clients Holder.Session is empty, and
//     Holder.Label is the first 64 bytes of their value.
//   - Other clients do not notice a ForceUnlock before they renew or release.
//   - A key without an expiry keeps everybody out until it is deleted.
//
// # Lists
//
// Package inspect lists what sessions of this library hold; the values of other clients are random, so
// their locks do not differ from other keys. Its functions Name and Break treat any string key of that name as a lock,
// also another program's, and Break deletes it. So name only keys that are locks.
package setnx
