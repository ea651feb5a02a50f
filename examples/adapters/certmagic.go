// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"errors"
	"sync"

	"github.com/caddyserver/certmagic"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// CertMagic is a storage of certificates with the locks of a session: &adapters.CertMagic{Storage: storage, Session: session}.
type CertMagic struct {
	certmagic.Storage
	Session *signalbox.Session

	held sync.Map // the leases, by name; certmagic unlocks by name
}

var (
	_ certmagic.Storage   = (*CertMagic)(nil)
	_ certmagic.TryLocker = (*CertMagic)(nil)
)

// Lock implements certmagic.Locker.
func (s *CertMagic) Lock(ctx context.Context, name string) error {
	lease, err := reentrant.New(s.Session, "acme/"+name).Lock(ctx)
	if err == nil {
		s.held.Store(name, lease)
	}
	return err
}

// TryLock implements certmagic.TryLocker.
func (s *CertMagic) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := reentrant.New(s.Session, "acme/"+name).TryLock(ctx)
	if err == nil {
		s.held.Store(name, lease)
		return true, nil
	}
	if errors.Is(err, signalbox.ErrHeld) {
		err = nil
	}
	return false, err
}

// Unlock implements certmagic.Locker.
func (s *CertMagic) Unlock(_ context.Context, name string) error {
	if lease, found := s.held.LoadAndDelete(name); found {
		return lease.(signalbox.Lease).Unlock() //nolint:errcheck,forcetypeassert // the map has nothing else
	}
	return signalbox.ErrNotHeld
}
