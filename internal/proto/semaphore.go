// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"strconv"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Semaphore is a kind.
//
//nolint:gochecknoglobals // a constant table
var Semaphore = Kind{
	Name:     "semaphore",
	Options:  optionsOfLocks | OptionExactCapacity | OptionPlain,
	InLayout: func(l *Layout) bool { return l.Semaphore != nil },
	Release:  "release",
	Table:    &nativeSemaphore.Table,
	Key:      Set.Permits,
	Read:     nativeSemaphore.read,
}

// The scripts of the semaphore.
//
//nolint:gochecknoglobals // constants in all but name
var (
	SemaphoreEnterScript     = mustLoad("semaphore/enter", 1)
	SemaphorePollScript      = mustLoad("semaphore/poll", 1)
	SemaphoreLeaveScript     = mustLoad("semaphore/leave", 1)
	SemaphoreYieldScript     = mustLoad("semaphore/yield", 1)
	SemaphoreSplitScript     = mustLoad("semaphore/split", 1)
	SemaphoreResizeScript    = mustLoad("semaphore/resize", 1)
	SemaphoreAvailableScript = mustLoad("semaphore/available", 1)
)

// read queries the holds and the queue of a name whose holds are permits.
func (t *SemaphoreTable) read(i *Inspection) {
	i.Query(t.ListCall(i.Key, 0, MaxHolders), func(reply wire.Reply) {
		list, err := ReadHoldsListed(&reply)
		if err != nil {
			i.SetForeign()
			return
		}
		for _, hold := range list.Holds {
			permits, label, owner := t.ParseHold("", hold.Name)
			i.AddHolder(Holder{Label: label, Session: owner, Hold: HoldID(hold.Name), Permits: permits, Until: hold.Ends.Time()})
		}
	})
	i.Query(wire.Call{Script: t.Available, Keys: []string{i.Key}}, func(reply wire.Reply) {
		if reply.Code() == wire.Done {
			i.Use.Capacity, i.Use.Held = int(max(reply.Int(1), 0)), int(reply.Int(2))
		}
	})
	keys := t.Keys(t.Names(i.Names)).All
	q := ticketQueue{kind: i.Use.Kind, key: keys[1], heartbeats: keys[2], ticketLength: permitTicket}
	i.Query(wire.Call{Command: "EXISTS", Keys: []string{q.key}}, func(reply wire.Reply) {
		if reply.Int(0) > 0 {
			queryQueue(i, q)
		}
	})
}

const (
	// WeightSize is how many digits say how many permits a hold has.
	WeightSize = 10
	// maxWeight is the greatest number that fits into the server's account of a hold.
	maxWeight = 1<<31 - 1
)

//nolint:gochecknoglobals // a constant table
var nativeSemaphore = SemaphoreTable{
	Table: Table{
		RegistryName: "semaphore",
		NamesOf:      Set.ForSemaphore,
		Keys:         nativeKeys,
		Renew:        HoldsRenewScript,
		Queue: &QueueScripts{
			Enter: SemaphoreEnterScript, Poll: SemaphorePollScript, Leave: SemaphoreLeaveScript, Drop: HoldsDropScript,
			Yield: SemaphoreYieldScript, Labelled: true,
		},
	},
	HoldLister:    HoldLister{List: HoldsListScript, Member: "sb1s"},
	Split:         SemaphoreSplitScript,
	Resize:        SemaphoreResizeScript,
	Available:     SemaphoreAvailableScript,
	AvailableKeys: 1,
	MaxPermits:    maxWeight,
	TotalKnown:    true,
	ParseHold:     nativePermits,
}

// nativePermits reads a hold, its weight, and the label of its session.
func nativePermits(_, name string) (permits int, label, owner string) {
	if len(name) < HoldSize+WeightSize {
		return 0, name, "" // none of ours
	}
	permits, _ = strconv.Atoi(name[HoldSize : HoldSize+WeightSize]) // 0 if it is not one of ours
	return permits, name[HoldSize+WeightSize:], name[:SessionSize]
}

// Yield is the call of semaphore/yield.
type Yield struct{ Hold, LifeUS, Attempts, Session, Verb, Channel, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Yield) AppendTo(args []string) []string {
	return append(args, c.Hold, c.LifeUS, c.Attempts, c.Session, c.Verb, c.Channel, c.KeepMS)
}

// Yielded is the reply to a yield: wire.Done if the hold continues, and wire.ReleasedOnly if it was released.
type Yielded struct {
	Granted

	Code  wire.Code
	Stamp wire.Stamp // of the tokens of the hold that continues
}

// ReadYielded reads the reply to a yield.
func ReadYielded(r *wire.Reply) Yielded {
	if r.Code() == wire.Done {
		return Yielded{Code: wire.Done, Stamp: r.Stamp(2)}
	}
	return Yielded{Code: r.Code(), Granted: readGranted(r)}
}

// Split is the call of semaphore/split.
type Split struct{ Ticket, LifeUS, NotAfter, Hold, Session, Verb, Channel, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Split) AppendTo(args []string) []string {
	return append(args, c.Ticket, c.LifeUS, c.NotAfter, c.Hold, c.Session, c.Verb, c.Channel, c.KeepMS)
}

// SplitDone is the reply to a split.
type SplitDone struct {
	Granted

	Code  wire.Code
	Now   wire.Stamp
	Stamp wire.Stamp // of the token of the new hold
}

// ReadSplitDone reads the reply to a split.
func ReadSplitDone(r *wire.Reply) SplitDone {
	return SplitDone{Granted: readGranted(r), Code: r.Code(), Now: r.Stamp(1), Stamp: r.Stamp(4)}
}

// Resize is the call of semaphore/resize.
type Resize struct{ Permits, NotAfter, Verb, Channel, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Resize) AppendTo(args []string) []string {
	return append(args, c.Permits, c.NotAfter, c.Verb, c.Channel, c.KeepMS)
}

// Resized is the reply to a resize.
type Resized struct {
	Code wire.Code
	Now  wire.Stamp
	Kind string // the kind that has the name, if the code is wire.Foreign
}

// ReadResized reads the reply to a resize.
func ReadResized(r *wire.Reply) Resized { return Resized{r.Code(), r.Stamp(1), r.Text(1)} }

// Available is the reply to semaphore/available.
type Available struct {
	Code     wire.Code
	Kind     string // the kind that has the name, if the code is wire.Foreign
	Capacity int64  // -1 if the key does not say
	Used     int64
}

// ReadAvailable reads the reply to semaphore/available.
func ReadAvailable(r *wire.Reply) Available {
	return Available{r.Code(), r.Text(1), r.Int(1), r.Int(2)}
}
