// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// wait waits until a round is over.
func (l *Latch) wait(ctx context.Context, round wire.Stamp) error {
	if err := l.base.Ready(ctx); err != nil {
		return err
	}
	l.base.Session.HandshakeInCluster(ctx, l.keys.latch)
	w, a, err := l.registry.join(l.keys, round)
	if err != nil {
		return err
	}
	defer l.registry.leave(w, a)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	select {
	case <-a.done: // at the same time, and worth more
		return a.err
	default:
		return errs.Join(errs.Ended(ctx), w.subject.Refusal())
	}
}
