// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// acquire runs the acquire script. shortfall says why too few replicas are known to have what it wrote.
func (l *Lock) acquire(ctx context.Context, args ...string) (reply wire.Reply, shortfall, err error) {
	if l.base.Replicas.Count == 0 {
		reply, err = l.realm.Acquire.Run(ctx, l.taking, args...)
		return reply, nil, err
	}
	call := wire.Call{Script: l.scripts.Acquire, Keys: l.taking, Args: args}
	return l.base.Session.RunReplicated(ctx, call, l.base.Replicas)
}

// undo takes back an acquire that was granted, before its caller is told, so that the next try does
// not find it; and in the background where the server does not answer.
func (l *Lock) undo(holdID string) {
	patience := l.base.Session.Patient(l.base.Session.UnlockPatience)
	defer patience.End()
	if _, err := l.base.Session.Runner.Run(patience, l.withdrawal(holdID)); err != nil {
		l.withdraw(holdID, 0)
	}
}
