// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// maxOfName is how many holders of a name are asked for, and how many waiters of a single one.
	maxOfName = 1000
	// maxShown is how many of both an entry of Names has.
	maxShown = 10
	// maxPipeline is how many calls are sent together.
	maxPipeline = 1000
)

// keyInspection finds out how one key is used. It asks in rounds: a reply may lead to further questions, and all probes of a
// page send those of a round together.
type keyInspection struct {
	entry Entry
	inUse bool  // the entry is one
	err   error // the first

	queries []query // of the next round
}

// query is a call, and what is done with its reply.
type query struct {
	call    wire.Call
	onReply func(reply wire.Reply)
}

// query puts a question in the next round.
func (p *keyInspection) query(call wire.Call, hear func(reply wire.Reply)) {
	p.queries = append(p.queries, query{call, hear})
}

// setForeign makes the entry that of another program's key.
func (p *keyInspection) setForeign() { p.entry.Kind, p.inUse = Foreign, true }

// addHolder adds a holder.
func (p *keyInspection) addHolder(h Holder) {
	p.entry.Holders, p.inUse = append(p.entry.Holders, h), true
	p.entry.HolderCount++
}

// resolve asks until no probe has questions. The keys are those of a node; node is "" if there is one, or if they are few.
func resolve(ctx context.Context, s *session.Session, node string, inspections []*keyInspection) {
	for {
		var calls []wire.Call
		var owners []*keyInspection
		var handlers []func(wire.Reply)
		for _, p := range inspections {
			for _, q := range p.queries {
				calls, owners, handlers = append(calls, q.call), append(owners, p), append(handlers, q.onReply)
			}
			p.queries = nil
		}
		if len(calls) == 0 {
			return
		}
		for from := 0; from < len(calls); from += maxPipeline {
			to := min(from+maxPipeline, len(calls))
			for i, outcome := range s.Runner.RunPaced(ctx, node, calls[from:to]) {
				p := owners[from+i]
				switch {
				case p.err != nil || p.entry.Kind == Foreign:
				case errors.Is(outcome.Err, errs.ErrWrongKind) && !p.inUse:
					p.setForeign()
				case outcome.Err != nil:
					p.err, p.queries = outcome.Err, nil
				default:
					handlers[from+i](outcome.Reply)
				}
			}
		}
	}
}
