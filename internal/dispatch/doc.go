// SPDX-License-Identifier: Apache-2.0

// Package dispatch wakes those who wait for a lock at the server, and tells those who listen: by
// messages over subscription connections, and waiters by looks of its own for the messages that do
// not arrive.
//
// # Guarantees
//
//  1. A wait that was registered before the lock was tried misses no release: it is woken by the
//     message, by the confirmation of its channel's subscription (messages before it are lost),
//     by every renewed one after a break, or by a look.
//  2. Every wait is bounded. A poll comes after about a second, after about a tenth of a second
//     while there is no subscription, or when the holder's key ends if that is sooner. If more than
//     a thousand locks are waited for, each is polled once in as many milliseconds as there are
//     locks, and after 10 s at the latest.
//  3. Looks are batched: one script for up to 100 locks (one a lock in a cluster). They ask
//     for what wakes a waiter, and leave its mark again where it was lost.
//  4. The reader of a connection never blocks: a wake-up is a send into a channel with room
//     for one; wake-ups coalesce. A slow waiter costs the others nothing. A Hearer must not block.
//  5. A channel is subscribed to once, however many wait or listen on it, and for Linger after the
//     last one left. After that nothing remains: no subscription, no connection, no goroutine.
//  6. There is one connection for a server or a primary that sentinels name, and in a cluster one
//     for each node that has channels. It follows the client: a server that the client has left is left
//     within about a second, also one that lives on.
//  7. A listener hears every message that the server delivers while the subscription holds, once and in
//     order, and is told of each subscription that is confirmed: what was told before it is lost.
//
// # Not guaranteed
//
// A wake-up promises nothing: whoever is woken tries, and may find the lock held. Messages
// carry no authority; anybody who may publish can cause a try, and no more. They say which session
// released, in 8 characters of its id, so that one which stands back tells its own apart.
//
// # States of a channel
//
//	          a link is found         SUBSCRIBE            confirmed
//	Homeless -----------------> Wanted ---------> Sent -------------> Live
//	  ^  ^                         |                |                   |
//	  |  |                         |      moved, or refused             | its slot has left the node
//	  |  +------- the connection broke -------------+-------------------+
//	  +---- the link's node rests, or is not known: the placer asks, after a pause
//
// Waiters are woken as a channel becomes Live. One that nobody uses any more lingers, in whichever
// state, and is dropped when Linger is over and nobody has come: UNSUBSCRIBE, or the end of a
// connection that has no other.
//
// # Clusters
//
// The channel of a lock is sharded: SSUBSCRIBE at the node that has the lock's slot, where
// scripts tell by SPUBLISH. A plain channel is subscribed to at any node, and PUBLISH reaches all. Those are two channels
// where they have one name; who waits in both ways has both, and each that becomes Live wakes it.
// An embedded server may report a cluster without sharded channels. Then every message is sent by
// PUBLISH and received on a plain channel. The first contact of each session finds that out
// (WithoutShards).
//
// What nodes are is known from the client alone, and which has a slot from the answer to a
// script that is sent to any: this takes no right that a session does not need anyway. It is
// remembered until a redirection, the end of the subscription by the server, or the end of
// the connection says otherwise.
//
// # Goroutines
//
// One for each link, while it has a channel: it owns the connection, sends SUBSCRIBE and UNSUBSCRIBE,
// and ends with the connection. One more while channels are homeless, the placer: it asks where they
// belong, and sleeps while their nodes rest. The client's readers run the hooks. Once a second the timers
// compare the links with the client's nodes.
//
// # Locking
//
// All state of channels and links is under the dispatcher's one lock, which is held for no call to a
// server, a Hearer or a logger; the lock of the timers comes after it. A change and the goroutine that
// is to see it meet there: a link gives up under the lock under which it finds no channel left, and
// the placer likewise, so that a change is either seen by them or starts the next. Hooks look whether
// their link is still the channel's: what a connection says after it was given up changes nothing.
//
// # Failure
//
// When a connection breaks, its channels are assigned to nodes anew after a pause that grows from
// 10 ms to 5 s. Once a subscription was confirmed, the pause is at most a quarter of the time that
// the connection lasted, if that was 40 ms or more: then waiters are without messages for at most a
// fifth of the time, however often connections break. If the server refuses a subscription, for
// lack of a right or for good, its waiters poll, it is tried again after such pauses, and one line
// in the log says so.
package dispatch
