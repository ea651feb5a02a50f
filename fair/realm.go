// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"github.com/signalbox-go/signalbox/internal/ground"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/tenure"
)

// kind is what the session knows fair locks as.
const kind = "fair"

// realm is what one session has of the fair locks of one layout.
type realm struct {
	tenure.Kind

	hold hold.Realm
}

func realmOf(s *session.Session, l *layout.Layout) *realm {
	return session.PartOf(s, l.Fair.Realm, func() *realm {
		return &realm{ground.New(s, l, &l.Fair.Ground, nil), hold.Realm{Kind: kind}}
	})
}
