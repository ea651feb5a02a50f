// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
)

// kind is what the session knows fair locks as.
const kind = "fair"

// steps are the scripts of a fair lock's line.
//
//nolint:gochecknoglobals // a constant in all but name
var steps = line.Scripts{
	Enter: scripts.FairEnter,
	Look:  scripts.FairLook,
	Beat:  scripts.FairBeat,
	Leave: scripts.FairLeave,
	Drop:  scripts.FairDrop,
}

// realm is what one session has of fair locks.
type realm struct {
	*line.Lines

	hold hold.Realm
}

func realmOf(s *session.Session) *realm {
	return s.Part(kind, func(s *session.Session) session.Part { //nolint:errcheck,forcetypeassert // made here
		return &realm{line.New(s, steps), hold.Realm{Kind: kind}}
	}).(*realm)
}

// keys answers what the lock with these names is on the server. Grants are told on a channel of the
// session's: one for all its locks, or, in a cluster, one in the slot of each.
func (*realm) keys(s *session.Session, n names.Set, slot uint16) line.Keys {
	k := line.Keys{Holder: n.Holder, Line: n.Line(), Lives: n.Lives(), Slot: slot}
	if k.Grants = n.Grants(); !s.Runner.Clustered() {
		k.Grants = names.Grants(s.Settings.Prefix)
	}
	return k
}
