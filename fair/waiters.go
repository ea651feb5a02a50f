// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"iter"
	"strconv"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// waitersPage is how many waiters one script tells of.
const waitersPage = 100

// Waiters answers those who stand in line, of all processes, the first one first. One round trip for 100
// of them; the line moves meanwhile, so that together they are a picture and no promise. An error ends
// the sequence.
func (l *Lock) Waiters(ctx context.Context) iter.Seq2[signalbox.Waiter, error] {
	return func(yield func(signalbox.Waiter, error) bool) {
		for position, after := 1, "0"; ; {
			reply, err := l.waitersAfter(ctx, after)
			if err != nil {
				yield(signalbox.Waiter{}, l.root().Explain("waiters", err))
				return
			}
			n := reply.Len() / 4
			for i := range n {
				if !yield(l.waiterAt(reply, 4*i, position), nil) {
					return
				}
				position++
			}
			if n < waitersPage {
				return
			}
			after = reply.Text(4*n - 3)
		}
	}
}

func (l *Lock) waitersAfter(ctx context.Context, after string) (wire.Reply, error) {
	if err := l.root().Ready(ctx); err != nil {
		return wire.Reply{}, err
	}
	reply, err := l.base.Session.Runner.Run(ctx, wire.Call{
		Script: l.base.Layout.Fair.Waiters,
		Keys:   l.tenure.Keys.All[1:], // without the holder
		Args:   []string{after, strconv.Itoa(waitersPage)},
	})
	return reply, primitive.CutShort(ctx, err)
}

// waiterAt reads the four elements from i on.
func (l *Lock) waiterAt(reply wire.Reply, i, position int) signalbox.Waiter {
	w := signalbox.Waiter{
		Position: position,
		Session:  l.base.Layout.Session(reply.Text(i)),
		Alive:    reply.Int(i+2) == 1,
		Label:    reply.Text(i + 3),
	}
	if since := reply.Stamp(i + 1); since != 0 {
		w.Since = since.Time()
	}
	return w
}
