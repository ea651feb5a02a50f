// SPDX-License-Identifier: Apache-2.0

// Package ground is what a kind of lock stands on in a layout: a line, or a contest. A primitive asks for it by the
// table of its kind in package layout, and knows no difference.
package ground

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/contest"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/handoff"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/tenure"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// New answers the kind of lock that stands on g in a session. refusal makes an error of the answers of its scripts that
// no other kind has; nil is a kind that has none.
func New(s *session.Session, l *layout.Layout, g *layout.Ground, refusal func(wire.Reply) error) tenure.Kind {
	if refusal == nil {
		refusal = unknown
	}
	k := tenure.Kind{Renew: g.Renew, Named: tenure.Attempt.Name}
	if named := g.Named; named != nil {
		k.Named = func(a tenure.Attempt) string { return named(a.Grant().Stamp.Text(), a.Name()) }
	}
	if g.Contest != nil {
		if g.Contest.Passes {
			k.Passing = &tenure.Passing{Queues: handoff.NewTable()}
		}
		k.Source = contest.New(s, contest.Kind{Contest: g.Contest, Layout: l, Refusal: refusal})
		return k
	}
	if g.Line.Yield != nil || g.Line.Requeue != nil {
		k.Passing = &tenure.Passing{Queues: handoff.NewTable(), Yield: g.Line.Yield}
	}
	k.Source = lines{line.New(s, line.Kind{
		Enter: g.Line.Enter, Look: g.Line.Look, Leave: g.Line.Leave, Drop: g.Line.Drop, Requeue: g.Line.Requeue,
		Labelled: g.Line.Labelled, Refusal: refusal,
	})}
	return k
}

func unknown(reply wire.Reply) error {
	return fmt.Errorf("%w: it answered %d", errs.ErrRefused, reply.Int(0))
}

// Keys answers what a lock that stands on g is on the server.
func Keys(b *primitive.Base, g *layout.Ground) line.Keys {
	k := g.Keys(b.Names)
	return line.Keys{Holder: k.Holder, Lives: k.Lives, All: k.All, Grants: cmp.Or(k.Told, b.Grants()), Slot: b.Slot}
}

// lines is a line as a tenure.Source.
type lines struct{ *line.Lines }

func (s lines) Use(keys line.Keys) tenure.Queue { return queue{s.Lines.Use(keys)} }

// queue is line.Queue as a tenure.Queue.
type queue struct{ *line.Queue }

func (q queue) Try(ctx context.Context, wish line.Wish) (tenure.Attempt, error) {
	return granted(q.Queue.Try(ctx, wish))
}

func (q queue) Stand(wish line.Wish) tenure.Place { return place{q.Queue.Stand(wish)} }

// place is line.Place as a tenure.Place.
type place struct{ *line.Place }

func (p place) Leave() tenure.Attempt {
	if a := p.Place.Leave(); a != nil {
		return attempt{a}
	}
	return nil
}

// attempt is line.Attempt as a tenure.Attempt.
type attempt struct{ *line.Attempt }

func (a attempt) Swap(ctx context.Context, script *scripts.Script, wish line.Wish) (tenure.Attempt, error) {
	return granted(a.Attempt.Swap(ctx, script, wish))
}

// Requeue implements tenure.Requeuer.
func (a attempt) Requeue(ctx context.Context, used wire.Stamp, lasts time.Duration) (tenure.Place, bool, error) {
	p, had, err := a.Attempt.Requeue(ctx, used, lasts)
	if p == nil {
		return nil, had, err
	}
	return place{p}, had, err
}

func granted(a *line.Attempt, err error) (tenure.Attempt, error) {
	if err != nil {
		return nil, err
	}
	return attempt{a}, nil
}
