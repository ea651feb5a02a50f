// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/settle"
	"github.com/signalbox-go/signalbox/internal/stamp"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// errBefore says that what the process had on a server before is not known to be given back there.
var errBefore = errors.New("what this process had there before is not known to be given back")

// isGone waits until nothing of a ballot that is over is left on one server, and reports whether that is so. An Unlock
// returns when a quorum has given back: the next ballot would find the hold on the others, and lose their votes to it.
func (b *ballot) isGone(ctx context.Context, i int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	over, gone := b.mu.over, b.mu.gone
	b.mu.Unlock()
	if !over {
		return true // the gate of the name lets nobody ask before that; a server refuses where it did
	}
	select {
	case <-gone[i]:
		return true
	case <-ctx.Done():
		return false
	}
}

// overLocked ends the voting.
func (b *ballot) overLocked() {
	b.mu.over = true
	b.mu.gone = make([]chan struct{}, len(b.mu.votes))
	for i := range b.mu.gone {
		b.mu.gone[i] = make(chan struct{})
	}
}

// end gives back what servers have of the attempt, in the background, and lets late answers do so themselves.
func (b *ballot) end() {
	b.mu.Lock()
	if b.mu.over {
		b.mu.Unlock()
		return
	}
	b.overLocked()
	votes := slices.Clone(b.mu.votes)
	b.mu.Unlock()
	for i, v := range votes {
		if v.choice != silent {
			b.takeBack(i, v)
		}
	}
}

// close is end for a release, which asks the servers itself: it answers what they have said until now.
func (b *ballot) close() []vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overLocked()
	return slices.Clone(b.mu.votes)
}

// takeBack gives back what one server has of the attempt, or may have, in the background.
func (b *ballot) takeBack(i int, v vote) {
	if v.choice == granted || v.choice == doubtful {
		b.settle(i, v.notAfter)
		return
	}
	close(b.mu.gone[i]) // written before over was, and not since
}

// giveBack is the call that gives one server's part back.
func (b *ballot) giveBack(i int) wire.Call {
	b.mu.Lock()
	floor := b.mu.floor
	b.mu.Unlock()
	l, m := b.lock, b.lock.members[i]
	return wire.Call{
		Script: scripts.RedlockRelease,
		Keys:   l.keys[:1],
		Args:   []string{m.ID() + b.attempt, floor.Text(), m.Publish(), l.base.Names.Unlocked},
	}
}

// settle gives one server's part back until it is known to be: at once, and where that finds nothing because the
// acquire may still be on its way, once more when its not-after is over.
func (b *ballot) settle(i int, notAfter stamp.Stamp) {
	life := b.lock.base.Set.Lease
	t := &settle.Settlement{Call: b.giveBack(i), Until: clock.Now().Add(session.MaxPatience + life)}
	t.Over = sync.OnceFunc(func() { close(b.mu.gone[i]) })
	t.Settled = func(reply wire.Reply) time.Duration {
		t.Over() // what may still come is another hold than the next ballot's, and is given back
		now := reply.Stamp(1)
		if reply.Int(0) == 1 || now > notAfter {
			return 0 // it was sent once: gone is gone
		}
		left := time.Duration(notAfter-now)*time.Microsecond + 2*time.Millisecond
		t.Until = clock.Now().Add(min(left, session.MaxApart) + life)
		return left
	}
	b.lock.members[i].Settler.Settle(t)
}
