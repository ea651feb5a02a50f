// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"github.com/signalbox-go/signalbox/scripts"
)

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
