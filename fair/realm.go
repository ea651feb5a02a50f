// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/tenure"
	"github.com/signalbox-go/signalbox/scripts"
)

// kind is what the session knows fair locks as.
const kind = "fair"

// realm is what one session has of fair locks.
type realm struct {
	tenure.Kind

	hold hold.Realm
}

func realmOf(s *session.Session) *realm {
	return session.PartOf(s, kind, func() *realm {
		lines := line.New(s, line.Kind{
			Enter: scripts.FairEnter,
			Look:  scripts.FairLook,
			Leave: scripts.FairLeave,
			Drop:  scripts.FairDrop,
		})
		return &realm{tenure.Kind{Lines: lines, Renew: scripts.HolderRenew, Named: named}, hold.Realm{Kind: kind}}
	})
}

// named answers the hold as renewals name it: with its token, so that one that comes too late touches no
// later tenure.
func named(a *line.Attempt) string { return a.Grant().Stamp.Text() + a.Name() }

// keysOf answers what the lock is on the server.
func keysOf(b *primitive.Base) line.Keys {
	n := b.Names
	return line.Keys{
		Holder: n.Holder, Lives: n.Lives(), All: []string{n.Holder, n.Line(), n.Lives()},
		Grants: b.Grants(), Slot: b.Slot,
	}
}
