// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

// Ground describes the locks of one kind in a layout, and how callers wait for them: in a queue at the server
// (Line), or by trying (Contest). It has one of the two.
type Kind struct {
	// Realm distinguishes its locks from those of other kinds and layouts in a session.
	RegistryName string
	// Keys makes the keys of a lock. Those of the scripts are appended to room.
	Keys func(n names.Set, room []string) Keys
	// Renew lengthens the life of holds; see holder/renew.
	Renew *scripts.Script
	// Named returns what renewals call a hold that was granted with that stamp; nil is its name alone.
	RenewalName func(stamp, name string) string

	Queue *QueueScripts
	Retry *Retry
}

// Keys are those of one lock.
type Keys struct {
	// Holder is the key that names the holder.
	Holder string
	// All are the keys of the scripts that grant. The last one of a queue has the lives of the waiting sessions.
	All []string
	// Told is the channel that a contest listens on. If each waiter has a channel of its own, Told is its
	// prefix and the hold its end. A queue has channels that the layout does not know.
	Channel string
}

// Line has the scripts of a queue; see queue.Kind.
type QueueScripts struct {
	Enter, Poll, Heartbeat, Leave, Drop, Requeue *scripts.Script
	// Yield asks whether a hold may be handed over further inside its process; nil if the layout cannot
	// say. See queue.Attempt.Yield.
	Yield *scripts.Script
	// Labelled says that holds are named with the label of their session.
	Labelled bool
}

// Contest has the scripts of a lock without a queue.
//
//	Acquire  KEYS: Keys.All. ARGV: hold, ttl_ms, not_after, verb, channel, waits, Args, and the
//	         arguments of the wish. waits is 1 if the hold waits until Release, and 0 if it only
//	         tries.
//	         {1, stamp}         acquired: stamp is the server's time. Sent again for the same hold it lengthens that,
//	                            and replies the same
//	         {1, stamp, token}  the same, of a layout that counts its tokens: token is the hold's
//	         {0, left_ms, now}  it is held, and a poll is useless for left_ms; -1 is unknown
//	         {-1, now}          later than not_after: nothing was written
//	         {-2, kind}         the key is of another kind, or of none ('?')
//	         below -3           it can never be acquired: an error of the kind
//	Release  KEYS: Keys.All. ARGV: hold, verb, channel, Args. Releases what the hold
//	         has, also a ticket in the queue, and publishes if a waiter may be granted the lock.
//	         {1, now, heard}    it had the lock. heard is 1 if a session listens to the message, which may be
//	                            the hold's own: before this session tries again, it gives others time
//	         {0, now}           it had not
//	Swap     KEYS: Keys.All. ARGV: hold, ttl_ms, not_after, old hold, verb, channel, and the arguments of the wish. Puts
//	         the hold in the place of the old one. It replies like Acquire, and 0 if the old one has nothing.
//	Look     KEYS: Keys.Holder of many. ARGV: mark. {left_ms, ...}, -2 if a try is worth it; see dispatch.Target.
//
// verb and channel are how to publish, and Keys.Told.
type Retry struct {
	Acquire, Release *scripts.Script
	// Args are the same for every lock of the layout.
	Args []string
	// Hold makes a fresh hold of a session, if the scripts cannot use the layout's own; nil uses those. The
	// mark of the wish follows it.
	NewHold func(session string) string
	// Look is for exclusive waiters, LookBeside for those that may share the lock. If it is nil only a try
	// finds out, and replaces the poll.
	Poll, PollShared *scripts.Script
	// Each says that each waiter has a channel of its own, Keys.Told followed by the hold, and a ticket that
	// Release removes: it asks for itself. Otherwise one waiter at a time asks for all of a session.
	ChannelPerWaiter bool
	// Passes says that holds are handed over inside the process: each has a block of tokens from its
	// stamp on, wire.TokenBlock long.
	HandsOver bool
	// Silent says that other clients release the lock without a message: waiters poll as often as those
	// without a subscription do.
	Silent bool
}

// Exclusive is a lock in a layout that one holder has at a time: reentrant or fair. Force has the arguments
// of lock/force. Waiters has those of lock/waiters, and Keys.All except for the first. Instead of the stamp
// of a waiter's arrival it may return another text, which says where the next page begins; and a hold for its
// session. It is nil if the queue cannot be listed.
type Exclusive struct {
	Kind

	// Letters are what Describe calls the kinds that the lock is compatible with.
	CompatibleKinds string
	// Moded says that names of holds say which of the two kinds they are of.
	ModeInHold bool

	Force, Waiters *scripts.Script
	// Gather acquires several locks in one call, and Scatter releases them; nil if each is acquired alone.
	AcquireMany, ReleaseMany *scripts.Script
}

// RWLock is the read-write lock in a layout. The arguments of a wish are r for a reader and w for a writer.
// Door, Downgrade and Force have the arguments of those of rwlock/, and List has those of holds/list.
type RWLock struct {
	Kind

	Share, Downgrade, Force, List *scripts.Script
	// Label returns what the name of a hold says about its holder.
	LabelOf func(name string) string
}

// Semaphore is the semaphore in a layout. Resize and Available have the arguments of those of semaphore/, and
// List has those of holds/list. Split is that of a queue or of a contest.
type Semaphore struct {
	Kind

	Split, Resize, Available, List *scripts.Script
	// Asked is how many of Keys.All Available needs.
	AvailableKeys int
	// Most is how many permits one hold can have.
	MaxPermits int
	// Args follow the capacity in a wish, and whether it is exact.
	Args []string
	// Total says that it is known how many permits there are, free ones and others.
	TotalKnown bool
	// Holder reads the name of a hold, as List returns it to a session: how many permits it has, its holder,
	// and the session of that, as far as the name says.
	ParseHold func(session, name string) (permits int, label, owner string)
	// Alias returns what the names of holds have of their session, if that is not its id; nil otherwise. AliasIn
	// returns it for the name of a hold, and "" if another client made that.
	SessionAlias, AliasInHold func(text string) string
}
