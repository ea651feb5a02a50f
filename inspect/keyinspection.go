// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"time"

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

// scanCount is how many keys the server examines for one page, in a quarter of a millisecond to one.
const scanCount = 500

// batchTimeout is how long the pipelines of a page may take.
const batchTimeout = 5 * time.Second

// keyScan goes through all keys of one node, a page at a time. One goroutine uses it.
type keyScan struct {
	node  string
	scans []wire.Scan

	current  int         // the index of the element of scans under way
	cursor   wire.Cursor // the position of that scan
	begun    time.Time
	examined int64 // the keys examined so far, by all scans
	size     int64 // the number of keys at the start; 0 if it is not known
}

func newKeyScan(node string, scans []wire.Scan) *keyScan {
	return &keyScan{node: node, scans: scans, begun: time.Now()}
}

// isDone reports whether every key was examined.
func (k *keyScan) isDone() bool { return k.current == len(k.scans) }

// total returns how many keys the scan examines in all; 0 if that is not known.
func (k *keyScan) total() int64 { return k.size * int64(len(k.scans)) }

// nextPage returns the next page, and the wire.Scan that found it. After an error the same page can be requested again. If
// another server replies than before, as after a failover, the scan restarts.
func (k *keyScan) nextPage(ctx context.Context, s *session.Session) (scan wire.Scan, keys []string, err error) {
	scan = k.scans[k.current]
	scan.Count = scanCount
	page, err := s.Runner.Page(ctx, k.node, scan, k.cursor)
	switch {
	case errors.Is(err, wire.ErrOtherServer):
		*k = *newKeyScan(k.node, k.scans)
		return scan, nil, nil
	case err != nil:
		return scan, nil, err
	}
	if page.Size > 0 {
		k.size = page.Size
	}
	k.cursor = page.Next
	if k.examined += scanCount; k.cursor.IsStart() {
		k.current++
		k.examined = k.size * int64(k.current)
	}
	if k.size > 0 {
		k.examined = min(k.examined, k.size*int64(k.current+1))
	}
	slices.Sort(page.Keys)
	return scan, slices.Compact(page.Keys), nil
}

// nextScan returns the scan whose node has done the least work for lists, or nil.
func nextScan(s *session.Session, scans []*keyScan) *keyScan {
	if len(scans) == 0 {
		return nil
	}
	return slices.MinFunc(scans, func(a, b *keyScan) int {
		return int(s.Runner.Pace(a.node).Pause() - s.Runner.Pace(b.node).Pause())
	})
}
