// SPDX-License-Identifier: Apache-2.0

// Package notify wakes the waiters of a session and calls its listeners. Messages over subscription
// connections do so, and for waiters also polls, in case a message is lost. Observers of one name share both, by a [Registry].
//
// # Guarantees
//
//  1. A waiter that was registered before it tried the lock misses no release: the message wakes it,
//     or the confirmation of the subscription (messages before that are lost), or each renewed
//     confirmation after a break, or a poll.
//  2. Every wait is bounded. A poll comes after about a second, after about a tenth of a second
//     while there is no subscription, or when the holder's key ends if that is sooner. If more than
//     a thousand locks are waited for, each is polled once in as many milliseconds as there are
//     locks, and after 10 s at the latest.
//  3. Polls are batched: one script for up to 100 locks (in a cluster, one for each lock). They check
//     the condition that wakes a waiter, and write its id again if the id was lost.
//  4. The reader of a connection never blocks: a wake-up is a send into a channel with a buffer of
//     one; wake-ups coalesce. A slow waiter does not delay the others. A Handler must not block.
//  5. A channel is subscribed to once, for any number of waiters and listeners, and for Linger after
//     the last one left. After that nothing remains: no subscription, no connection, no goroutine.
//  6. There is one connection for a server, or for a primary that sentinels name, and in a cluster one
//     for each node that has channels. It follows the client: if the client changes to another server,
//     the connection does so within about a second, even if the old server runs on.
//  7. A listener receives every message that the server delivers while the subscription holds, once and in
//     order. It is notified of each confirmed subscription: earlier messages are lost.
//
// # Not guaranteed
//
// A wake-up promises nothing: the waiter tries, and may find the lock held. Messages carry no authority: a
// client that may publish can cause a try, and no more. A message names the releasing session by 8 characters
// of its id, so that a session that backs off recognises its own releases.
//
// # States of a channel
//
//	             its node is known            SUBSCRIBE                confirmed
//	Unassigned -----------------> Assigned -----------> Subscribing -----------> Subscribed
//	  ^  ^                           |                     |                         |
//	  |  |                           |           moved, or refused                   | its slot has left the node
//	  |  +--------- the connection broke ------------------+-------------------------+
//	  +---- its node is left alone, or not known: the assigner asks, after a pause
//
// Waiters are woken when a channel becomes Subscribed. An unused channel lingers in its state. It is dropped when
// Linger is over without a new user. A connection without channels is closed. One that has others is replaced by a new
// one ten seconds later, and what still arrives on the dropped channel is ignored. UNSUBSCRIBE is never sent: the
// client panics if the server refuses the PING that it sends behind it, as after a failed save.
//
// # Clusters
//
// The channel of a lock is sharded: SSUBSCRIBE at the node that has the lock's slot, and SPUBLISH in scripts.
// A plain channel can be subscribed to at any node, and PUBLISH reaches all. A sharded and a plain channel of
// the same name are two channels; a waiter with BothChannels uses both, and is woken when either becomes Subscribed. An
// embedded server may report a cluster without sharded channels. Then every message is sent by PUBLISH and
// received on a plain channel. The first contact of each session finds that out (DisableShardedChannels).
//
// Only the client lists the nodes. The owner of a slot is found from the reply to a script sent to any node:
// this needs no right that a session does not need anyway. It is remembered until a redirection, the end of
// the subscription by the server, or the end of the connection.
//
// # Goroutines
//
// Each connection has one goroutine. It makes the connection, sends SUBSCRIBE, and ends with the
// connection. While channels are unassigned there is one more, the assigner: it asks which nodes
// they belong to, and sleeps while these nodes are left alone. The client's readers run the hooks. Once a second the
// timers compare the connections with the client's nodes.
//
// # Locking
//
// The dispatcher's one lock guards all state of channels and connections. It is not held during calls to a server,
// a Handler or a logger; the lock of the timers is acquired after it. A connection ends under the same lock hold
// under which it finds that it has no channel left, and the assigner likewise. So each change is either seen by
// the running goroutine or starts the next one. Hooks check whether their connection is still that of the channel:
// what a connection reports after it was given up changes nothing.
//
// # Failure
//
// When a connection breaks, its channels are assigned to nodes anew after a pause that grows from 10 ms to 5
// s. Once a subscription was confirmed, the pause is at most a quarter of the time that the connection
// lasted, if that was 40 ms or more: then waiters are without messages for at most a fifth of the time,
// however often connections break. If the server refuses a subscription, for lack of a right or permanently,
// its waiters poll, the subscription is tried again after such pauses, and one line in the log says so.
package notify
