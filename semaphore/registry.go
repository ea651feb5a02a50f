// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// kind is what the session knows semaphores as.
const kind = "semaphore"

// permitRegistry is what one session keeps for the semaphores of one layout.
type permitRegistry struct {
	acquire.Manager

	scope hold.Scope
	alias string
}

// Alias implements session.Aliased.
func (r *permitRegistry) Alias() string { return r.alias }

func registryOf(s *session.Session, l *layout.Layout, table *layout.Semaphore) *permitRegistry {
	return session.RegistryOf(s, table.RegistryName, func() *permitRegistry {
		r := &permitRegistry{Manager: acquire.NewManager(s, l, &table.Kind, refusal), scope: hold.Scope{Kind: kind}}
		if table.SessionAlias != nil {
			r.alias = table.SessionAlias(s.ID())
		}
		return r
	})
}

// refusal returns the error of a reply that no waiting can change.
func refusal(reply wire.Reply) error {
	switch reply.Code() {
	case wire.TooFew:
		return tooFew(reply.Int(1))
	case wire.OtherCapacity:
		return inexact(reply.Int(1))
	default:
		return fmt.Errorf("%w: the reply is %d", errs.ErrRefused, reply.Code())
	}
}

func tooFew(capacity int64) error {
	return fmt.Errorf("%w: there are %d permits", errs.ErrCapacity, capacity)
}

func inexact(capacity int64) error {
	return fmt.Errorf("%w: the server has %d permits, and New was called with another number", errs.ErrCapacity, capacity)
}
