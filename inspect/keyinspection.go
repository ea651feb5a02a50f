// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxOfName is how many holders of a name are read, and how many waiters if one name is inspected.
	maxOfName = layout.MaxHolders
	// maxShown is how many holders, and how many waiters, an entry of Names has.
	maxShown = 10
	// maxPipeline is how many calls are sent together.
	maxPipeline = 1000
)

// keyInspection finds out how one key is used. It sends queries in rounds: a reply may lead to further queries, and all
// inspections of a page send the queries of a round together.
type keyInspection struct {
	entry Entry
	inUse bool  // reports that the key is in use, so that entry is valid
	err   error // the first error, or nil

	queries []query // the queries of the next round
}

// query is a call, and the function that handles the reply.
type query struct {
	call    wire.Call
	onReply func(reply wire.Reply)
}

// query adds a query to the next round.
func (ki *keyInspection) query(call wire.Call, onReply func(reply wire.Reply)) {
	ki.queries = append(ki.queries, query{call, onReply})
}

// readString returns the call that reads the first bytes of a string and when its key ends, of one moment.
func readString(key string, count int) wire.Call {
	return wire.Call{Script: scripts.SessionReadString, Keys: []string{key}, Args: []string{strconv.Itoa(count)}}
}

// setForeign makes the entry that of another program's key.
func (ki *keyInspection) setForeign() { ki.entry.Kind, ki.inUse = Foreign, true }

// addHolder adds a holder.
func (ki *keyInspection) addHolder(h Holder) {
	ki.entry.Holders, ki.inUse = append(ki.entry.Holders, h), true
	ki.entry.HolderCount++
}

// resolve sends queries until no inspection has any. The keys are those of a node; node is "" if there is one, or if
// they are few.
func resolve(ctx context.Context, s *session.Session, node string, inspections []*keyInspection) {
	for {
		var calls []wire.Call
		var owners []*keyInspection
		var handlers []func(wire.Reply)
		for _, ki := range inspections {
			for _, q := range ki.queries {
				calls, owners, handlers = append(calls, q.call), append(owners, ki), append(handlers, q.onReply)
			}
			ki.queries = nil
		}
		if len(calls) == 0 {
			return
		}
		for from := 0; from < len(calls); from += maxPipeline {
			to := min(from+maxPipeline, len(calls))
			for i, outcome := range s.Runner.RunPaced(ctx, node, calls[from:to]) {
				ki := owners[from+i]
				switch {
				case ki.err != nil || ki.entry.Kind == Foreign:
				case errors.Is(outcome.Err, errs.ErrWrongKind) && !ki.inUse:
					ki.setForeign()
				case outcome.Err != nil:
					ki.err, ki.queries = outcome.Err, nil
				default:
					handlers[from+i](outcome.Reply)
				}
			}
		}
	}
}
