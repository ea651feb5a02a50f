// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

// kind is what the session knows read-write locks as.
const kind = "rwlock"

// rwRegistry is what one session keeps for the read-write locks of one layout.
type rwRegistry struct {
	acquire.Manager

	readers, writers hold.Scope
}

func registryOf(s *session.Session, l *layout.Layout) *rwRegistry {
	return session.RegistryOf(s, l.RWLock.RegistryName, func() *rwRegistry {
		r := &rwRegistry{
			Manager: acquire.NewManager(s, l, &l.RWLock.Kind, nil),
			readers: hold.Scope{Kind: kind}, writers: hold.Scope{Kind: kind},
		}
		r.Share = l.RWLock.Share
		return r
	})
}
