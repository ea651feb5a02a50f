// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

// Ground is what the locks of one kind look like in a layout, and how they are waited for: in a queue at the server
// (Line), or by trying (Contest). It has one of the two.
type Ground struct {
	// Realm tells its locks apart from those of other kinds and layouts in a session.
	Realm string
	// Keys makes the keys of a lock. Those of the scripts are appended to room.
	Keys func(n names.Set, room []string) Keys
	// Renew lengthens the life of holds; see holder/renew.
	Renew *scripts.Script
	// Named returns what renewals call a hold that was granted with that stamp; nil is its name alone.
	Named func(stamp, name string) string

	Line    *Line
	Contest *Contest
}

// Keys are those of one lock.
type Keys struct {
	// Holder says who has the lock.
	Holder string
	// Lives says until when the sessions in a line count as living.
	Lives string
	// All are the keys of the scripts that grant.
	All []string
	// Told is the channel that a contest listens on, or, where each waiter has one of its own, what stands before the
	// hold in that. A line has channels that the layout does not know.
	Told string
}

// Line has the scripts of a line; see queue.Kind.
type Line struct {
	Enter, Look, Wait, Leave, Drop, Requeue *scripts.Script
	// Yield asks whether a hold may be passed on further inside its process; nil where none is. See queue.Attempt.Yield.
	Yield *scripts.Script
	// Labelled says that holds are named with the label of their session.
	Labelled bool
}

// Contest has the scripts of a lock without a line.
//
//	Acquire  KEYS: Keys.All. ARGV: hold, ttl_ms, not_after, verb, channel, waits, Args, and the
//	         arguments of the wish. waits is 1 if the hold waits until Release, and 0 if it only
//	         tries.
//	         {1, stamp}         taken: stamp is the server's time. Sent again for the same hold it lengthens that, and is
//	                            taken again
//	         {1, stamp, token}  the same, of a layout that counts its tokens: token is the hold's
//	         {0, left_ms, now}  it is not to be had, and nobody need look for left_ms; -1 is unknown
//	         {-1, now}          later than not_after: nothing was written
//	         {-2, kind}         the key is of another kind, or of none ('?')
//	         below -3           never to be had: what the kind makes an error of
//	Release  KEYS: Keys.All. ARGV: hold, verb, channel, Args. Releases what the hold
//	         has, also a ticket in the queue, and publishes if a waiter may be granted the lock.
//	         {1, now, heard}    it had the lock. heard is 1 if a session listens to the message, which may be
//	                            the hold's own: before this session tries again, it gives others time
//	         {0, now}           it had not
//	Swap     KEYS: Keys.All. ARGV: hold, ttl_ms, not_after, old hold, verb, channel, and the arguments of the wish. Puts
//	         the hold in the place of the old one. It answers as Acquire does, and 0 where the old one has nothing.
//	Look     KEYS: Keys.Holder of many. ARGV: mark. {left_ms, ...}, -2 where trying is worth it; see dispatch.Target.
//
// verb and channel are how to publish, and Keys.Told.
type Contest struct {
	Acquire, Release *scripts.Script
	// Args are the same for every lock of the layout.
	Args []string
	// Hold makes a fresh hold of a session, where the layout's own are of no use to the scripts; nil is those. What the wish
	// has for a mark stands behind it.
	Hold func(session string) string
	// Look is for those who want the lock alone, LookBeside for those who may have it beside others. Where
	// there is none only trying tells, and is done in its place.
	Look, LookBeside *scripts.Script
	// Each says that each waiter is told on a channel of its own, Keys.Told with the hold behind it, and has a place among
	// those who wait, which Release gives back: it asks for itself. Otherwise one waiter at a time asks for all of a session.
	Each bool
	// Passes says that holds are handed over inside the process: each has a block of tokens from its
	// stamp on, wire.TokenBlock long.
	Passes bool
	// Silent says that other clients release the lock without a message: waiters poll as often as those
	// without a subscription do.
	Silent bool
}

// Exclusive is a lock in a layout that one holder has at a time: reentrant or fair. Force takes the arguments of
// lock/force. Waiters takes those of lock/waiters, and Keys.All except for the first. It may return another text than a
// stamp for when a waiter came: one that says where the next page begins; and a hold for its session. It is nil if the
// queue cannot be listed.
type Exclusive struct {
	Ground

	// Letters are what Describe calls the kinds that the lock is compatible with.
	Letters string
	// Moded says that names of holds say which of the two kinds they are of.
	Moded bool

	Force, Waiters *scripts.Script
	// Gather takes several locks in one call, and Scatter releases them; nil if each is taken alone.
	Gather, Scatter *scripts.Script
}

// RWLock is the read-write lock in a layout. The arguments of a wish are r for a reader and w for a writer. Door, Downgrade
// and Force take what those of rwlock/ do, and List takes what holds/list does.
type RWLock struct {
	Ground

	Door, Downgrade, Force, List *scripts.Script
	// Label returns what the name of a hold says of who has it.
	Label func(name string) string
}

// Semaphore is the semaphore in a layout. Resize and Available take what those of semaphore/ do, and List takes what
// holds/list does. Split is that of a line or of a contest.
type Semaphore struct {
	Ground

	Split, Resize, Available, List *scripts.Script
	// Asked is how many of Keys.All Available takes.
	Asked int
	// Most is how many permits one hold can have.
	Most int
	// Args stand behind the capacity in a wish, and whether it is exact.
	Args []string
	// Total says that it is known how many permits there are, free ones and others.
	Total bool
	// Holder reads the name of a hold, as List tells it to a session: how many permits it has, who has it, and which
	// session that is, as far as it says.
	Holder func(session, name string) (permits int, label, owner string)
}
