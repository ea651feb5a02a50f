// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// Entry is one use of a name, as the server saw it at one moment. A name that is used by several kinds, such as a lock
// and a semaphore, has an entry for each. The tags are those of the command's JSON; they stay as they are.
type Entry struct {
	// Name is the name as New takes it.
	Name string `json:"name"`
	// Hashed reports that Name is a digest: the session that uses it has signalbox.WithHashedNames.
	Hashed bool `json:"hashed,omitempty"`
	// Raw reports that no name is encoded as the key has it. Name is then what the key has.
	Raw bool `json:"raw,omitempty"`
	// Key is the key at the server. In the library's own layout it is UTF-8 without control characters.
	Key string `json:"key"`
	// Kind is one of the constants of this package. A lock is an Election while its leader has a value.
	Kind string `json:"kind"`

	// Since is when its first holder acquired it, when the round of a latch began, or when the run of a once that was
	// stored began. Until is when the first hold ends unless it is renewed, or when the outcome of a once is forgotten. Token
	// is the fencing token. Each is zero if the server does not know it. All times are those of the server's clock.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Token uint64    `json:"token,omitempty"`

	// Holders are the first holders, in the order in which their holds end: at most 10 of Names, at most 1,000 of Name.
	Holders []Holder `json:"holders"`
	// HolderCount is how many there are; 1,000 are 1,000 or more.
	HolderCount int `json:"holder_count"`
	// Waiters are the first tickets in the queue, in order; as many as of Holders. Layouts without a queue list no waiters.
	Waiters []Waiter `json:"waiters"`
	// WaiterCount is how many tickets there are, those of sessions that died lately included.
	WaiterCount int `json:"waiter_count"`

	// Capacity and Held are the permits of a semaphore: all, and those that are held. Capacity is 0 if the server does not
	// know it.
	Capacity int `json:"capacity,omitempty"`
	Held     int `json:"held,omitempty"`
	// Total and Left are the ids that open the round of a latch, and those that are missing.
	Total int `json:"total,omitempty"`
	Left  int `json:"left,omitempty"`
	// Value is that of an election's leader.
	Value string `json:"value,omitempty"`
	// Shards is how many shards a group has. Unowned is how many of them have no owner, and UnownedSince since when the first of
	// these has no owner: also if the lease of its owner has ended, and no other member has taken it yet.
	Shards       int       `json:"shards,omitempty"`
	Unowned      int       `json:"unowned,omitempty"`
	UnownedSince time.Time `json:"unowned_since,omitzero"`
	// Draining is how many owners were asked for a shard that they still have, and DrainingSince when the first of them was.
	Draining      int       `json:"draining,omitempty"`
	DrainingSince time.Time `json:"draining_since,omitzero"`
}

// IsHeld reports whether a process holds the name: it has holders, or it is a latch whose round is running. No round trip.
func (e Entry) IsHeld() bool {
	kind := proto.KindOf(e.Kind)
	return e.HolderCount > 0 || kind != nil && kind.IsHeld
}

// Summary says in a few words what the fields of the kind say, such as "2 of 5 missing" for a latch. It is "" for a kind of which
// the holders and waiters say all. The words may change.
func (e Entry) Summary() string {
	kind := proto.KindOf(e.Kind)
	if kind == nil || kind.Summary == nil {
		return ""
	}
	return kind.Summary(&proto.Use{
		Since: e.Since, Until: e.Until, HolderCount: e.HolderCount, WaiterCount: e.WaiterCount, Capacity: e.Capacity, Held: e.Held,
		Total: e.Total, Left: e.Left, Value: e.Value, Shards: e.Shards, Unowned: e.Unowned, Draining: e.Draining,
	})
}

// Holder is a session that holds a name.
type Holder struct {
	// Label is what the session calls itself; see signalbox.WithLabel. It is not verified. In a layout of others it is the
	// owner as they write it.
	Label string `json:"label"`
	// Session is the ID of the session, "" if it is not known.
	Session string `json:"session,omitempty"`
	// Hold identifies the hold: a later one of the same session has another. BreakSeen compares it.
	Hold string `json:"hold,omitempty"`
	// Shared reports a reader of a read-write lock.
	Shared bool `json:"shared,omitempty"`
	// MayBeIdle reports a lock with signalbox.WithKeepWarm: its session may keep it while no goroutine uses it.
	MayBeIdle bool `json:"may_be_idle,omitempty"`
	// Permits is how many permits of a semaphore it has.
	Permits int `json:"permits,omitempty"`
	// Shards is how many shards a member owns, Value what observers read of it, and Leaving says that it takes no more.
	Shards  int    `json:"shards,omitempty"`
	Value   string `json:"value,omitempty"`
	Leaving bool   `json:"leaving,omitempty"`
	// Since, Until and Token are those of the hold; zero if the server does not know them. A member is there since it joined.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Token uint64    `json:"token,omitempty"`
}

// Waiter is a ticket in the queue of a name. A session may wait with several goroutines for one ticket.
type Waiter struct {
	// Label and Session are those of the session.
	Label   string `json:"label"`
	Session string `json:"session,omitempty"`
	// Since is when the ticket came; zero if the server does not know it.
	Since time.Time `json:"since,omitzero"`
	// Alive reports whether the session sent a heartbeat lately. Otherwise the ticket is passed over.
	Alive bool `json:"alive"`
	// Shared reports a reader of a read-write lock.
	Shared bool `json:"shared,omitempty"`
	// Permits is how many permits of a semaphore it asks for.
	Permits int `json:"permits,omitempty"`
}

// The kinds of entries.
const (
	Reentrant = "reentrant"
	Fair      = "fair"
	RWLock    = "rwlock"
	Semaphore = "semaphore"
	Countdown = "countdown"
	Redlock   = "redlock"
	Election  = "election"
	Once      = "once"
	// Shards is a group of shards. Its holders are its members, by the end of their leases.
	Shards = "shards"

	// Exclusive is a reentrant or a fair lock, if the server does not know which.
	Exclusive = proto.ExclusiveUse
	// Foreign is a key of another program where a lock would have its key: calls on that name return
	// signalbox.ErrWrongKind.
	Foreign = proto.ForeignUse
	// Number is a number in a layout of others: a latch, a semaphore whose permits are free, or a counter of another
	// program.
	Number = proto.NumberUse
)

// Kinds returns every Kind that an Entry can have.
func Kinds() []string {
	var kinds []string
	for _, k := range proto.All {
		kinds = append(kinds, k.Name)
	}
	return append(kinds, Exclusive, Foreign, Number)
}

// breakers end the holds of a name, by kind. A lock whose kind is not known is broken as a reentrant one is.
//
//nolint:gochecknoglobals // a constant table
var breakers = map[string]func(ctx context.Context, s *signalbox.Session, name string) error{
	Reentrant: func(ctx context.Context, s *signalbox.Session, name string) error {
		return reentrant.New(s, name).ForceUnlock(ctx)
	},
	Fair: breakFair,
	RWLock: func(ctx context.Context, s *signalbox.Session, name string) error {
		return rwlock.New(s, name).ForceUnlock(ctx)
	},
	Semaphore: breakSemaphore,
	Countdown: func(ctx context.Context, s *signalbox.Session, name string) error {
		return countdown.New(s, name).Reset(ctx)
	},
	Redlock:  breakRedlockPart,
	Election: breakFair,
	Once:     breakFair,
	Shards:   breakMembers,
}

func breakFair(ctx context.Context, s *signalbox.Session, name string) error {
	return fair.New(s, name).ForceUnlock(ctx)
}
