// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3/lock"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// Goose lets one process migrate at a time: goose.WithSessionLocker(adapters.NewGoose(session, "migrations")). It is for
// databases without a lock of their own. A provider needs its own.
type Goose struct {
	mu    *reentrant.Lock
	lease signalbox.Lease // of the one run that a provider has at a time
}

var _ lock.SessionLocker = (*Goose)(nil)

// NewGoose returns the locker of one provider.
func NewGoose(session *signalbox.Session, name string) *Goose {
	return &Goose{mu: reentrant.New(session, name)}
}

// SessionLock waits until no other process migrates.
func (g *Goose) SessionLock(ctx context.Context, _ *sql.Conn) (err error) {
	g.lease, err = g.mu.Lock(ctx)
	return err
}

// SessionUnlock returns ErrLost if another process may have migrated meanwhile: goose does not ask during the run.
func (g *Goose) SessionUnlock(context.Context, *sql.Conn) error { return g.lease.Unlock() }
