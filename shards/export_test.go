// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// StartsAfterClose starts a member that has left since the session has counted it, as by a Close that begins in that instant. It reports
// whether the member joins.
func StartsAfterClose(g *Group) (joins bool, err error) {
	if err := g.base.Session.Begin(); err != nil {
		return false, err
	}
	m := newMember(context.Background(), g)
	m.leave(errs.ErrClosed)
	m.start()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.memberships > 0, nil
}
