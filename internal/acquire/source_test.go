// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/acquire/contend"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
)

// A kind uses the source that its layout names, and the keys of that.
func TestKindUsesTheSourceOfItsLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, l := range []*layout.Layout{layout.Native(), layout.Redisson()} {
		s := signalbox.NewSession(server.Client(t, signalbox.Tune))
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		option := signalbox.WithLayout(signalbox.Native())
		if l != layout.Native() {
			option = signalbox.WithLayout(signalbox.Redisson())
		}
		b := acquire.MakeIn(s, "a", session.Semaphore, []signalbox.LockOption{option}, func(*layout.Layout) bool { return true })
		require.NoError(t, b.Err)
		for _, g := range []*layout.Ground{&l.Fair.Ground, &l.RWLock.Ground} {
			kind := acquire.NewKind((*session.Handle)(s).Session(), l, g, nil)
			_, contests := kind.Source.(*contend.Contests)
			require.Equal(t, g.Contest != nil, contests, g.Realm)
			require.Equal(t, g.Line != nil, !contests, g.Realm)
			require.Same(t, g.Renew, kind.Renew)
			keys := acquire.KeysOf(&b, g, nil)
			require.Equal(t, g.Keys(b.Names, nil).Holder, keys.Holder)
			require.NotEmpty(t, keys.All)
			require.NotEmpty(t, keys.Grants)
			q := kind.Use(&keys)
			q.Done()
		}
	}
}
