// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// SessionSize is the length of a session's id: 16 random bytes.
	SessionSize = 22
	// HoldSize is the length of a hold of the library's own layout: the session's id, and that of the attempt.
	HoldSize = SessionSize + 19
)

//nolint:gochecknoglobals // a constant table
var native = Layout{
	Name:     "native",
	Names:    NativeNames,
	Hold:     newNativeHold,
	Session:  nativeSession,
	Describe: HolderDescribeScript,
	Lock:     &nativeLock,
	Fair:     &nativeLock,
	Latch:    &nativeLatch,
	RWLock: &RWLockTable{
		Table: Table{
			RegistryName: "rwlock",
			NamesOf:      Set.ForRWLock,
			Keys:         nativeKeys,
			Renew:        HoldsRenewScript,
			Queue: &QueueScripts{
				Enter: RWLockEnterScript, Poll: RWLockPollScript, Leave: RWLockLeaveScript, Drop: HoldsDropScript,
				Labelled: true,
			},
		},
		HoldLister: HoldLister{List: HoldsListScript, Member: "sb1w"},
		Share:      RWLockMayShareScript,
		Downgrade:  RWLockDowngradeScript,
		Force:      RWLockForceScript,
		LabelOf:    func(name string) string { return name[min(len(name), HoldSize):] },
	},
	Semaphore: &nativeSemaphore,
}

// nativeLock is the reentrant and the fair lock: one kind at the server.
//
//nolint:gochecknoglobals // a constant table
var nativeLock = ExclusiveTable{
	Table: Table{
		RegistryName: "lock",
		Keys:         nativeKeys,
		Renew:        HolderRenewScript,
		Queue: &QueueScripts{
			Enter: LockEnterScript, Poll: LockPollScript, Heartbeat: LockHeartbeatScript, Leave: LockLeaveScript,
			Free: LockFreeScript, Keep: LockKeepScript, Waiters: LockWaitersScript, Requeue: LockRequeueScript,
		},
	},
	CompatibleKinds: lettersOfLocks,
	ModeInHold:      true,
	Force:           LockForceScript,
	Waiters:         LockWaitersScript,
	AcquireMany:     LockAcquireManyScript,
	ReleaseMany:     LockReleaseManyScript,
}

func nativeKeys(n Set) Keys { return Keys{All: n.AppendKeys(nil)} }

// Native returns the library's own layout; scripts/README.md describes it.
func Native() *Layout { return &native }

// newNativeHold returns the session's id, the number of the attempt, and 64 bits drawn from the system for this
// attempt, so that two copies of one process, restored from one snapshot, share none. 41 characters.
func newNativeHold(session string, serial uint64) string { return NativeTicket(session, serial) }

// NativeTicket returns a hold of the library's own layout, with suffixes.
func NativeTicket(session string, serial uint64, suffixes ...string) string {
	var raw [14]byte
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], serial)
	copy(raw[:6], number[2:])
	_, _ = rand.Read(raw[6:]) // crypto/rand.Read never fails: it ends the process instead
	var id [128]byte          // on the stack: room for the number of permits and the longest label
	copy(id[:], session)
	base64.RawURLEncoding.Encode(id[SessionSize:], raw[:])
	text := id[:HoldSize]
	for _, suffix := range suffixes {
		text = append(text, suffix...)
	}
	return string(text)
}

func nativeSession(hold string) string { return hold[:min(len(hold), SessionSize)] }

// The lengths of tickets, by which the tickets of each kind of queue are recognised.
const (
	rwTicket     = HoldSize
	lockTicket   = rwTicket + 1 // the mode
	permitTicket = rwTicket + WeightSize
)

// ticketQueue is a queue of tickets at the server.
type ticketQueue struct {
	kind, key, heartbeats string
	ticketLength          int // the length of the queue's tickets
	shared                bool
}

// queryQueue queries the tickets of a queue. If no session holds the lock, the queue says which kind it is of.
func queryQueue(i *Inspection, q ticketQueue) {
	i.Query(wire.Call{Command: "ZCARD", Keys: []string{q.key}}, func(reply wire.Reply) {
		if tickets := int(reply.Int(0)); tickets > 0 {
			if i.Use.HolderCount == 0 {
				i.Use.Kind = q.kind
			}
			i.Use.WaiterCount, i.InUse = i.Use.WaiterCount+tickets, true
		}
	})
	page := Waiters{After: "0", Count: strconv.Itoa(i.WaiterLimit), Size: strconv.Itoa(q.ticketLength)}
	i.Query(wire.Call{Script: LockWaitersScript, Keys: []string{q.key, q.heartbeats}, Args: page.AppendTo(nil)}, func(reply wire.Reply) {
		for _, t := range ReadWaiters(&reply) {
			if t.Ticket == "" {
				continue // of another kind
			}
			w := Waiter{Label: t.Label, Session: nativeSession(t.Ticket), Since: t.Since().Time(), Alive: t.IsAlive, Shared: q.shared}
			if q.ticketLength == permitTicket && len(t.Ticket) > rwTicket {
				w.Permits, _ = strconv.Atoi(t.Ticket[rwTicket:]) // 0 if another program wrote it
			}
			i.Use.Waiters = append(i.Use.Waiters, w)
		}
		// The two queues of a read-write lock are shown as one.
		slices.SortStableFunc(i.Use.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	})
}
