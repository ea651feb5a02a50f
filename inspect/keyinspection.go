// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// maxOfName is how many holders of a name are read, and how many waiters if one name is inspected.
	maxOfName = proto.MaxHolders
	// maxShown is how many holders, and how many waiters, an entry of Names has.
	maxShown = 10
	// maxPipeline is how many calls are sent together.
	maxPipeline = 1000
)

// keyInspection is the inspection of a key of a name.
type keyInspection struct {
	proto.Inspection

	about Entry // the name and the key, and nothing of the use
}

// entry returns what the inspection has found, with at most n holders and waiters.
func (ki *keyInspection) entry(n int) Entry {
	e, use := ki.about, &ki.Use
	e.Kind, e.Since, e.Until, e.Token = use.Kind, use.Since, use.Until, use.Token
	e.HolderCount, e.WaiterCount = use.HolderCount, use.WaiterCount
	e.Capacity, e.Held, e.Total, e.Left, e.Value = use.Capacity, use.Held, use.Total, use.Left, use.Value
	e.Shards, e.Unowned, e.UnownedSince, e.Draining, e.DrainingSince = use.Shards, use.Unowned, use.UnownedSince, use.Draining, use.DrainingSince
	if len(use.Holders) > 0 {
		first := use.Holders[0]
		e.Since, e.Until, e.Token = first.Since, first.Until, first.Token
	}
	// Never nil: readers of JSON can count on lists.
	e.Holders, e.Waiters = []Holder{}, []Waiter{}
	for _, h := range use.Holders[:min(n, len(use.Holders))] {
		e.Holders = append(e.Holders, Holder(h))
	}
	for _, w := range use.Waiters[:min(n, len(use.Waiters))] {
		e.Waiters = append(e.Waiters, Waiter(w))
	}
	return e
}

// resolve sends queries until no inspection has any. The keys are those of a node; node is "" if there is one, or if
// they are few.
func resolve(ctx context.Context, s *session.Session, node string, inspections []*keyInspection) {
	for {
		var calls []wire.Call
		var owners []*keyInspection
		var handlers []func(wire.Reply)
		for _, ki := range inspections {
			for _, q := range ki.Queries {
				calls, owners, handlers = append(calls, q.Call), append(owners, ki), append(handlers, q.OnReply)
			}
			ki.Queries = nil
		}
		if len(calls) == 0 {
			return
		}
		for from := 0; from < len(calls); from += maxPipeline {
			to := min(from+maxPipeline, len(calls))
			for i, outcome := range s.Runner.RunPaced(ctx, node, calls[from:to]) {
				ki := owners[from+i]
				switch {
				case ki.Err != nil || ki.Use.Kind == Foreign:
				case errors.Is(outcome.Err, errs.ErrWrongKind) && !ki.InUse:
					ki.SetForeign()
				case outcome.Err != nil:
					ki.Err, ki.Queries = outcome.Err, nil
				default:
					handlers[from+i](outcome.Reply)
				}
			}
		}
	}
}
