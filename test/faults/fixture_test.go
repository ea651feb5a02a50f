// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// lockKind is a kind of lock, with the kind that excludes it.
type lockKind struct {
	locktest.Primitive

	rival locktest.Primitive
}

// fixture is a server, sessions whose wire is good, and a view.
type fixture struct {
	kind   lockKind
	server *redistest.Server
	holder *signalbox.Session
	other  *signalbox.Session
	view   *locktest.View
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server) // so that each is one request from the start
	holder, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	return &fixture{lockKind{locktest.Reentrant(), locktest.Reentrant()}, server, holder, other, locktest.NewView(t, server)}
}

// each runs a test of each kind of lock with a fixture of its own.
func each(t *testing.T, run func(t *testing.T, f *fixture)) {
	t.Helper()
	kinds := []lockKind{{locktest.Reader(), locktest.Writer()}}
	for _, p := range locktest.Primitives() {
		kinds = append(kinds, lockKind{p, p})
	}
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.kind = k
			run(t, f)
		})
	}
}

// faultySession is a session with a wire of its own that can fail.
type faultySession struct {
	proxy   *redistest.Proxy
	session *signalbox.Session
}

// impatient lets a client give up a silent connection after a second. Any other client here waits for a busy machine.
func impatient(o *rueidis.ClientOption) {
	o.ConnWriteTimeout, o.Dialer.Timeout = time.Second, redistest.Patience
	signalbox.Tune(o)
}

// link returns a session whose wire counts what match names. mod changes the options of its client.
func (f *fixture) link(t *testing.T, match redistest.Match, mod func(*rueidis.ClientOption)) faultySession {
	t.Helper()
	proxy := redistest.NewProxy(t, f.server.Addr())
	proxy.SetMatch(match)
	return faultySession{proxy, locktest.SessionOf(t, proxy.Client(t, mod))}
}

// shortly returns a context that ends soon.
func shortly(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 100*time.Millisecond)
}
