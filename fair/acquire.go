// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/hold"
)

func (l *Lock) acquire(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	return l.tenure.Take(ctx)
}

func (l *Lock) tryAcquire(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	return l.tenure.Try(ctx)
}

// enter answers a lease by the one that ctx carries.
func (l *Lock) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().Made(); err != nil {
		return hold.Lease{}, false, err
	}
	return l.base.Enter(ctx, l.tenure.Realm)
}
