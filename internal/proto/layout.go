// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/scripts"

// Channels are the sorts of channels on which releases are reported in a cluster.
type Channels uint8

// The sorts of channels.
const (
	PlainChannels Channels = 1 << iota
	ShardedChannels
)

// Layout is one of the layouts. It is never written to.
type Layout struct {
	// Name is what errors call it.
	Name string
	// Names makes keys and channels.
	Names func(in NamingOptions, name string) (Set, error)
	// Hold makes a fresh hold of a session; serial is its number.
	Hold func(session string, serial uint64) string
	// Session returns the session of a hold, as far as the hold names it.
	Session func(hold string) string
	// WaiterID is the text by which all waiters identify themselves; "" if each uses its session. A message that
	// begins with the id of a waiter comes from its own session, as far as that is known.
	WaiterID string
	// Channels says on which channels releases are reported in a cluster: PlainChannels, PlainChannels|ShardedChannels,
	// or, if 0, sharded channels alone.
	Channels Channels
	// Describe returns the holder of a lock.
	Describe *scripts.Script
	// The kinds of locks; nil if the layout does not have the kind.
	Lock           *ExclusiveTable // reentrant
	Fair           *ExclusiveTable
	RWLock         *RWLockTable
	Semaphore      *SemaphoreTable
	PlainSemaphore *SemaphoreTable // permits without owners, and with leases only for holds of this library
	Latch          *LatchTable
	// Reader reads the keys of the layout for package inspect, which knows those of the library's own layout itself: nil there.
	Reader *Reader
}

// Table describes the locks of one kind in a layout, and how callers wait for them: in a queue at the server
// (Queue), or by trying again (Retry). It has one of the two.
type Table struct {
	// RegistryName is the name of the registry that has the locks of this kind and layout in a session.
	RegistryName string
	// NamesOf returns what a lock keeps of its names, with the key of the kind's holders. If it is nil, that is n.
	NamesOf func(n Set) Set
	// Keys makes the keys of a lock, of what NamesOf returned.
	Keys func(n Set) Keys
	// Renew lengthens the life of holds; see holder/renew.
	Renew *scripts.Script
	// RenewalName returns the name under which renewals send a hold that was granted with that stamp. If it is nil, they
	// send the name of the hold.
	RenewalName func(stamp, name string) string

	Queue *QueueScripts
	Retry *Retry
}

// Names returns what a lock of the kind keeps of its names.
func (t *Table) Names(n Set) Set {
	if t.NamesOf == nil {
		return n
	}
	return t.NamesOf(n)
}

// Keys are those of one lock.
type Keys struct {
	// All are the keys of the scripts that grant. The last key of a queue has the heartbeats of the waiting sessions.
	All []string
	// Channel is the channel that waiters without a queue listen on. If each waiter has a channel of its own, Channel is
	// the prefix of its name, and the hold the rest. A queue has channels that the layout does not know.
	Channel string
}

// QueueScripts has the scripts of a queue; see package queue.
type QueueScripts struct {
	Enter, Poll, Leave *scripts.Script
	// Heartbeat sends one heartbeat for many queues, and replies which of their locks have a new holder. Those are
	// polled next. A kind without Heartbeat is polled each time.
	Heartbeat *scripts.Script
	// Free releases a hold whose holder key has its ticket and no mark, so that no queue can exist. It does nothing if the key has
	// another ticket, or a mark. It is nil if the layout has no such script.
	Free *scripts.Script
	// Keep renews holds that may be idle. It has the arguments of Table.Renew, and replies wire.Marked for a hold that another
	// attempt may want. It is nil if the layout cannot recall holds.
	Keep *scripts.Script
	// Waiters returns the tickets of the queue, for a holder that asks whether another session waits; see Exclusive.Waiters. It is nil unless Keep is there.
	Waiters *scripts.Script
	// Drop ends a hold with the holder key alone, while a slot moves. An exclusive kind has Requeue instead, which
	// releases a hold and queues the session again in one call. The scripts of an exclusive kind work with the holder
	// key alone.
	Drop, Requeue *scripts.Script
	// Yield asks whether a hold may be handed over further inside its process; nil if the layout cannot
	// say. See queue.Attempt.Yield.
	Yield *scripts.Script
	// Labelled says that holds are named with the label of their session.
	Labelled bool
}

// Retry has the scripts of a lock without a queue: waiters try again.
//
//	Acquire  KEYS: Keys.All. ARGV: hold, ttl_ms, not_after, verb, channel, waits, Args, and the
//	         arguments of the request. waits is 1 if the hold waits until Release, and 0 if it only
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
//	Swap     KEYS: Keys.All. ARGV: hold, ttl_ms, not_after, old hold, verb, channel, and the arguments of the request. Replaces
//	         the old hold by the new one. It replies like Acquire, and 0 if the old hold has nothing.
//	Poll     KEYS: Keys.Holder of many. ARGV: waiter's id. {left_ms, ...}, -2 if a try is worth it; see dispatch.Target.
//
// verb is the publishing command, and channel is Keys.Channel.
type Retry struct {
	Acquire, Release *scripts.Script
	// Args are the same for every lock of the layout.
	Args []string
	// NewHold makes a fresh hold of a session; nil if the scripts use the layout's own. The request's mode follows
	// it.
	NewHold func(session string) string
	// Poll is for exclusive waiters, PollShared for waiters that may share the lock. If Poll is nil, a try
	// replaces it.
	Poll, PollShared *scripts.Script
	// ChannelPerWaiter says that each waiter has a channel of its own, Keys.Channel followed by the hold, and a ticket that
	// Release removes: it tries for itself. Otherwise one waiter of a session tries at a time.
	ChannelPerWaiter bool
	// HandsOver says that holds are handed over inside the process: each hold has a block of tokens from its
	// stamp on, wire.TokenBlock long.
	HandsOver bool
	// Silent says that other clients release the lock without a message: waiters poll as often as waiters
	// without a subscription.
	Silent bool
}

// ExclusiveTable is a lock in a layout that one holder has at a time: reentrant or fair. Force has the arguments
// of lock/force. Waiters has the arguments of lock/waiters, and the keys Keys.All except for the first. Instead of the stamp
// of a waiter's arrival it may return another text, which says where the next page begins; and a hold for its
// session. Waiters is nil if the queue cannot be listed.
type ExclusiveTable struct {
	Table

	// CompatibleKinds are the letters by which Describe names the kinds that the lock is compatible with. A reentrant or fair
	// lock has the letter of its mode there, r, f or k, and not the l of its key.
	CompatibleKinds string
	// ModeInHold says that the names of holds contain the kind: reentrant or fair.
	ModeInHold bool

	Force, Waiters *scripts.Script
	// AcquireMany acquires several locks in one call, and ReleaseMany releases them; nil if each is acquired alone.
	AcquireMany, ReleaseMany *scripts.Script
}

// RWLockTable is the read-write lock in a layout. The argument of a request is r for a reader and w for a writer.
// Share, Downgrade and Force have the arguments of the scripts in rwlock/.
type RWLockTable struct {
	Table

	HoldLister

	Share, Downgrade, Force *scripts.Script
	// LabelOf returns the label of the holder, from the name of a hold.
	LabelOf func(name string) string
}

// SemaphoreTable is the semaphore in a layout. Resize and Available have the arguments of the scripts in semaphore/. Split is
// the script for a queue or for retries. Force is nil if permits are ended one by one; else it ends many and notifies their
// sessions:
//
//	Force  KEYS: Keys.All. ARGV: verb, channel, what the channel of a session begins with, the aliases
//	       of the sessions that had the permits, with a blank between, and the names of the holds,
//	       each of HoldSize bytes, one behind the other
type SemaphoreTable struct {
	Table

	HoldLister

	Split, Resize, Available, Force *scripts.Script
	// HoldSize is the length of the name of a hold, as Force takes it.
	HoldSize int
	// AvailableKeys is how many keys of Keys.All the script Available needs.
	AvailableKeys int
	// MaxPermits is the greatest number of permits of one hold.
	MaxPermits int
	// Args follow the capacity in a request, and whether it is exact.
	Args []string
	// TotalKnown says that the server knows the number of all permits, free and held.
	TotalKnown bool
	// ParseHold reads the name of a hold, as List returns it to a session: the number of its permits, the label of its
	// holder, and the holder's session, as far as the name has them.
	ParseHold func(session, name string) (permits int, label, owner string)
	// SessionAlias returns the text by which the names of holds identify a session, if that is not its id; nil otherwise.
	// AliasInHold returns that text from the name of a hold, and "" if another client made the hold.
	SessionAlias, AliasInHold func(text string) string
}
