// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"github.com/signalbox-go/signalbox/internal/wire"
)

// RWLock is a kind. Its holds are in the holder key.
//
//nolint:gochecknoglobals // a constant table
var RWLock = Kind{
	Name:     "rwlock",
	Options:  optionsOfLocks,
	InLayout: func(l *Layout) bool { return l.RWLock != nil },
	Table:    &native.RWLock.Table,
}

// The scripts of the read-write lock.
//
//nolint:gochecknoglobals // constants in all but name
var (
	RWLockEnterScript     = mustLoad("rwlock/enter", 1)
	RWLockPollScript      = mustLoad("rwlock/poll", 1)
	RWLockLeaveScript     = mustLoad("rwlock/leave", 1)
	RWLockForceScript     = mustLoad("rwlock/force", 1)
	RWLockDowngradeScript = mustLoad("rwlock/downgrade", 1)
	RWLockMayShareScript  = mustLoad("rwlock/may-share", 1)
)

// queryReadersAndWriter queries the holders of a read-write lock.
func queryReadersAndWriter(i *Inspection) {
	table := Native().RWLock
	i.Query(table.ListCall(i.Names.Holder, 0, MaxHolders), func(reply wire.Reply) {
		list, _ := ReadHoldsListed(&reply) // a key of another kind has no holds
		writing := list.Phase == "1"
		for _, hold := range list.Holds {
			name := hold.Name
			h := Holder{Label: table.LabelOf(name), Session: nativeSession(name), Hold: HoldID(name), Until: hold.Ends.Time(), Shared: !writing}
			if writing && list.Floor != 0 {
				h.Since, h.Token = list.Floor.Time(), list.Floor.Token()
			}
			i.AddHolder(h)
		}
	})
}

// queryRWQueues queries the two queues of a read-write lock. They are shown as one.
func queryRWQueues(i *Inspection) {
	q := ticketQueue{kind: RWLock.Name, key: i.Names.Writers(), heartbeats: i.Names.RWHeartbeats(), ticketLength: rwTicket}
	queryQueue(i, q)
	q.key, q.shared = i.Names.Readers(), true
	queryQueue(i, q)
}

// RWForce is the call of rwlock/force.
type RWForce struct{ Verb, Channel, ForcedChannel, Holds, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c RWForce) AppendTo(args []string) []string {
	return append(args, c.Verb, c.Channel, c.ForcedChannel, c.Holds, c.KeepMS)
}

// Downgrade is the call of rwlock/downgrade.
type Downgrade struct{ Hold, Session, Verb, Channel, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Downgrade) AppendTo(args []string) []string {
	return append(args, c.Hold, c.Session, c.Verb, c.Channel, c.KeepMS)
}

// Downgraded is the reply to a downgrade: wire.NotDone if the hold is gone.
type Downgraded struct {
	Granted

	Code wire.Code
}

// ReadDowngraded reads the reply to a downgrade.
func ReadDowngraded(r *wire.Reply) Downgraded { return Downgraded{readGranted(r), r.Code()} }

// MayShare is the call of rwlock/may-share.
type MayShare struct{ Hold string }

// AppendTo appends the arguments in the order of the header.
func (c MayShare) AppendTo(args []string) []string { return append(args, c.Hold) }
