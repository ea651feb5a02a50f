// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Reentrant is a kind. It reads the holder key, for all kinds whose holds are there.
//
//nolint:gochecknoglobals // a constant table
var Reentrant = Kind{
	Name:     "reentrant",
	Options:  optionsOfLocks | OptionKeepWarm | OptionWanted,
	Lost:     "lock",
	InLayout: func(l *Layout) bool { return l.Lock != nil },
	Table:    &nativeLock.Table,
	Key:      func(n Set) string { return n.Holder },
	Read:     readHolderKey,
}

// readHolderKey queries the hold that a holder key names, and the queues of the name.
func readHolderKey(i *Inspection) {
	var described wire.Reply
	i.Query(Native().DescribeCall(i.Names.Holder), func(reply wire.Reply) { described = reply })
	queues := wire.Call{Command: "EXISTS", Keys: []string{i.Names.QueueKey(), i.Names.Writers(), i.Names.Readers()}}
	i.Query(queues, func(reply wire.Reply) { readHolder(i, described, reply.Int(0) > 0) })
}

// readHolder reads the description of the holder key. queued says that the name has a queue.
func readHolder(i *Inspection, reply wire.Reply, queued bool) { //nolint:revive // a fact, not a switch
	if reply.Code() < wire.NotDone {
		i.SetForeign()
		return
	}
	h, hold, letter, err := Native().ReadHold(reply)
	switch {
	case err != nil && !queued:
		return // free
	case err != nil: // free, and a waiter is about to be granted it
		i.Use.Kind = ExclusiveUse
		queryQueue(i, lockQueue(i.Names))
		queryRWQueues(i)
		return
	}
	i.Use.Kind = h.Kind
	switch letter {
	case "w":
		queryReadersAndWriter(i)
		if queued {
			queryRWQueues(i)
		}
		return
	case "f":
		queryLeader(i, hold)
	}
	i.AddHolder(Holder{Label: h.Label, Session: h.Session, Hold: HoldID(hold), MayBeIdle: h.MayBeIdle, Since: h.Since, Until: h.Until, Token: h.Token})
	if queued {
		queryQueue(i, lockQueue(i.Names))
	}
}

func lockQueue(n Set) ticketQueue {
	return ticketQueue{kind: ExclusiveUse, key: n.QueueKey(), heartbeats: n.HeartbeatsKey(), ticketLength: lockTicket}
}

// queryLeader makes the hold of a fair lock that of an election if its leader has a value.
func queryLeader(i *Inspection, hold string) {
	i.Query(wire.Call{Script: ElectionReadScript, Keys: []string{i.Names.Leader()}}, func(reply wire.Reply) {
		if value := ReadElectionValue(&reply); value.Code == wire.Done && value.ID == hold {
			i.Use.Kind, i.Use.Value = Election.Name, value.Text
		}
	})
}
