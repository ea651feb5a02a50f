// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Fate is what has become of a hold that was asked about.
type Fate int

const (
	// Gone is one that has the lock no more.
	Gone Fate = iota
	// Kept is one that goes on, with a new grant.
	Kept
	// GivenBack is one that was to go on and was given back, for others in line.
	GivenBack
)

// Yield asks by script whether the hold of a, which nobody uses, may go on for those who wait for the like in this session: it
// may where they alone stand in line, and is given back otherwise. The arguments of script are the name, the life for
// which it goes on, and the attempts of those, and behind them those of Leave but for the name. It answers as Leave does
// where it gave back, but 2; 0 where a has nothing any more; or 1, the time, and the stamp of new tokens, where it goes
// on. After an error nobody knows.
func (a *Attempt) Yield(ctx context.Context, script *scripts.Script) (Fate, error) {
	ls := a.q.lines
	sent := clock.Now()
	reply, err := ls.session.Runner.Run(ctx, a.yieldCall(script))
	if err != nil {
		return Gone, err
	}
	switch reply.Code() {
	case wire.Undone:
		return Gone, nil
	case wire.Done:
		ls.mu.Lock()
		defer ls.mu.Unlock()
		stamp := reply.Stamp(2)
		a.grant = Grant{Stamp: stamp, Last: stamp.BlockEnd(), Life: a.wish.Life, Sent: sent, Read: clock.Now()}
		return Kept, nil
	default: // it is released only
		a.end()
		a.handed(reply)
		if a.copyLeft(0) > 0 {
			a.leaveAgain()
		} else {
			a.forget()
		}
		return GivenBack, nil
	}
}

func (a *Attempt) yieldCall(script *scripts.Script) wire.Call {
	leave := a.leaveCall(nil, 0)
	return wire.Call{
		Script: script,
		Keys:   leave.Keys,
		Args:   append([]string{leave.Args[0], micros(a.wish.Life), a.alike()}, leave.Args[1:]...),
	}
}

// alike returns the attempts of this session in line that what a has can be passed on to: as many as a look lists, which
// is more than there are, but for a moment.
func (a *Attempt) alike() string {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	var attempts strings.Builder
	if a.q.wait == nil {
		return ""
	}
	for _, other := range a.q.waiting[:min(maxListed, len(a.q.waiting))] {
		if other.state == inLine && other.wish.Like == a.wish.Like {
			attempts.WriteString(other.attempt())
		}
	}
	return attempts.String()
}
