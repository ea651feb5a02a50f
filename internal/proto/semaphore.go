// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Semaphore is a kind.
//
//nolint:gochecknoglobals // a constant table
var Semaphore = Kind{
	Name:     "semaphore",
	Options:  optionsOfLocks | OptionExactCapacity | OptionPlain,
	InLayout: func(l *Layout) bool { return l.Semaphore != nil },
	Key:      Set.Permits,
	Read:     readPermits,
}

func readPermits(i *Inspection) {
	table := Native().Semaphore
	i.Query(ListCall(scripts.HoldsList, i.Key, "sb1s", 0, MaxHolders), func(reply wire.Reply) {
		list, err := ReadHoldsListed(&reply)
		if err != nil {
			i.SetForeign()
			return
		}
		for _, hold := range list.Holds {
			permits, label, owner := table.ParseHold("", hold.Name)
			i.AddHolder(Holder{Label: label, Session: owner, Hold: HoldID(hold.Name), Permits: permits, Until: hold.Ends.Time()})
		}
	})
	i.Query(wire.Call{Script: table.Available, Keys: []string{i.Key}}, func(reply wire.Reply) {
		if reply.Code() == wire.Done {
			i.Use.Capacity, i.Use.Held = int(max(reply.Int(1), 0)), int(reply.Int(2))
		}
	})
	q := ticketQueue{kind: i.Use.Kind, key: i.Names.PermitsQueue(), heartbeats: i.Names.PermitsHeartbeats(), ticketLength: permitTicket}
	i.Query(wire.Call{Command: "EXISTS", Keys: []string{q.key}}, func(reply wire.Reply) {
		if reply.Int(0) > 0 {
			queryQueue(i, q)
		}
	})
}
