// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/tenure"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// kind is what the session knows semaphores as.
const kind = "semaphore"

// realm is what one session has of semaphores.
type realm struct {
	tenure.Kind

	hold hold.Realm
}

func realmOf(s *session.Session) *realm {
	return session.PartOf(s, kind, func() *realm {
		lines := line.New(s, line.Kind{
			Enter:    scripts.SemaphoreEnter,
			Look:     scripts.SemaphoreLook,
			Leave:    scripts.SemaphoreLeave,
			Drop:     scripts.HoldsDrop,
			Labelled: true,
			Refusal:  refusal,
		})
		return &realm{tenure.Kind{Lines: lines, Renew: scripts.HoldsRenew, Named: (*line.Attempt).Name}, hold.Realm{Kind: kind}}
	})
}

// refusal answers why the server grants nothing, however long one waits.
func refusal(reply wire.Reply) error {
	switch reply.Int(0) {
	case -3:
		return fmt.Errorf("%w: there are %d permits", errs.ErrCapacity, reply.Int(1))
	case -4:
		return inexact(reply.Int(1))
	}
	return fmt.Errorf("%w: it answered %d", errs.ErrRefused, reply.Int(0))
}

func inexact(capacity int64) error {
	return fmt.Errorf("%w: the server has %d permits, another number than New was told", errs.ErrCapacity, capacity)
}

// keysOf answers what the semaphore is on the server.
func keysOf(b *primitive.Base) line.Keys {
	n := b.Names
	holder, lives := n.Permits(), n.PermitsLives()
	return line.Keys{
		Holder: holder, Lives: lives, All: []string{holder, n.PermitsLine(), lives},
		Grants: b.Grants(), Slot: b.Slot,
	}
}
