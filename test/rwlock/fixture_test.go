// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// limit is how long a test waits for many. Only a broken promise takes that long.
const limit = 3 * time.Minute

// fixture is a server with sessions that nothing happens to.
type fixture struct {
	server        *redistest.Server
	holder, other *signalbox.Session
	view          *locktest.View
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	return &fixture{server, locktest.Session(t, server), locktest.Session(t, server), locktest.NewView(t, server)}
}

// own makes a reader have a hold of its own, which is not shared.
func own() signalbox.LockOption { return signalbox.WithMaxHold(time.Hour) }

// nothingLeft fails the test if a lock is still held or waited for after a while.
func (f *fixture) nothingLeft(t *testing.T) {
	t.Helper()
	view := locktest.NewView(t, f.server) // a connection that no restart has broken
	redistest.Await(t, "no lock is held or waited for", func() bool {
		immortal, held, err := view.Leaks()
		require.NoError(t, err)
		require.Empty(t, immortal, "keys without an end")
		return len(held) == 0
	})
}

// long is a context for a call that has to wait for what takes longer than usual.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func id(s *signalbox.Session) string { return (*session.Handle)(s).Session().ID() }
