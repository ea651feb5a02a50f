// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Holder answers who has the lock, by the server's account, or ErrNotHeld. A lock of another kind
// that has the name is told with its Kind; a key that is no lock's is ErrWrongKind. One round trip,
// without a second try.
func (l *Lock) Holder(ctx context.Context) (signalbox.Holder, error) { return l.root().Holder(ctx) }

// IsLocked answers whether anybody has the lock, by the server's account: this process, another, or
// a lock of another kind. What it answers may be over when it is read. One round trip.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.root().IsLocked(ctx) }

// ForceUnlock takes the lock from whoever has it, in any process, and gives it to the next in line: for people,
// and for holders that hang. It answers nil when the hold that it found is gone, and ErrNotHeld where there was
// none. A lock of another kind that has the name is left alone: ErrWrongKind.
//
// The holder is told at once, by message: its lease ends with ErrLost, and its contexts with it. Where the
// message is lost, or the holder's session polls, it is told at its next renewal. Until then it works on beside the
// next holder, whose token is greater: what tokens are for.
//
// After an error it may be done or not. It is safe to repeat, but takes the lock from whoever has it then. Two round
// trips; a lock that changes hands between them ten times over is ErrHeld.
func (l *Lock) ForceUnlock(ctx context.Context) error {
	if err := l.root().Made(); err != nil {
		return l.root().Explain("force unlock", err)
	}
	return l.base.ForceUnlock(ctx, l.base.Layout.Fair.Letter, func(hold, told string) wire.Call {
		return wire.Call{
			Script: l.base.Layout.Fair.Force,
			Keys:   l.tenure.Keys.All,
			Args:   []string{hold, l.base.Session.PublishIn(l.base.Layout), l.tenure.Keys.Grants, told, l.base.Floor},
		}
	})
}
