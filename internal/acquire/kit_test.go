// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

// fixture is a server, and a proxy before it for sessions that are to meet faults.
type fixture struct {
	*testing.T

	server *redistest.Server
	proxy  *redistest.Proxy
}

// newFixture returns a server behind whose proxy the faults meet scripts.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, server: redistest.Start(t)}
	f.proxy = redistest.NewProxy(t, f.server.Addr())
	redistest.LoadScripts(t, f.server)
	f.proxy.SetMatch(redistest.Commands("EVALSHA"))
	return f
}

// newServer returns one whose faults meet the exchange of permits alone.
func newServer(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.proxy.SetMatch(locktest.RunsScript(proto.SemaphoreSplitScript))
	return f
}

// user is one session that uses the semaphore "a", of three permits.
type user struct {
	server  *fixture
	session *signalbox.Session
	options []signalbox.LockOption
	manager *acquire.Manager
	scope   hold.Scope
}

// newUser returns a session behind the proxy, whose leases have these options.
func (p *fixture) newUser(options ...signalbox.LockOption) *user {
	p.Helper()
	client := p.proxy.Client(p, func(o *rueidis.ClientOption) { signalbox.Tune(o) })
	u := &user{server: p, session: signalbox.NewSession(client, signalbox.WithCloseGrace(patience)), options: options}
	s := (*session.Handle)(u.session).Session()
	manager := acquire.NewManager(s, proto.Native(), &proto.Native().Semaphore.Table, nil)
	session.RegistryOf(s, "semaphore", func() *queue.Queues { return manager.Queues })
	u.manager = &manager
	p.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = u.session.Close(ended) // reports that leases were left, which the test knows
	})
	return u
}

// acquirerOf returns an Acquirer of n permits.
func (u *user) acquirerOf(n int) *acquire.Acquirer {
	u.server.Helper()
	base := acquire.Make(u.session, "a", &proto.Semaphore, u.options)
	require.NoError(u.server, base.Check())
	base.Names = base.Names.ForSemaphore()
	shared := u.manager.NewShared(&u.scope, &queue.Request{
		Life: base.Terms.Life(), FloorTTL: base.Floor, Mode: fmt.Sprintf("%010d", n), Args: []string{"3", "0"}, Concurrent: true,
	}, base.Terms.Lease)
	return &acquire.Acquirer{Base: base, Shared: &shared}
}

// acquireAll acquires all permits.
func (u *user) acquireAll() hold.Lease {
	u.server.Helper()
	lease, err := u.acquirerOf(3).TryAcquire(u.server.T.Context())
	require.NoError(u.server, err)
	return lease
}

// swap keeps one permit of those that lease has.
func (u *user) swap(lease hold.Lease) (hold.Lease, error) {
	u.server.Helper()
	return u.acquirerOf(1).Swap(lease, proto.SemaphoreSplitScript)
}

// config returns how the hold of lease is renewed.
func (u *user) config(lease hold.Lease) *hold.Config {
	u.server.Helper()
	term, has := lease.TermFor(&u.scope, "sb:{a}:permits")
	require.True(u.server, has)
	return term.Config()
}

// holds returns how many holds the server has.
func (p *fixture) holds() (n int) {
	p.Helper()
	list, _ := p.server.MustDo(p, "ZRANGE", "sb:{a}:permits", 0, -1).([]any)
	for _, member := range list {
		if len(fmt.Sprint(member)) > 41 {
			n++
		}
	}
	return n
}

// awaitIdle waits until neither the session nor the server know of anything, and nothing is counted.
func (u *user) awaitIdle() {
	u.server.Helper()
	s := (*session.Handle)(u.session).Session()
	redistest.Await(u.server, "rest", func() bool {
		queues, attempts, _ := u.manager.Queues.Len()
		return queues == 0 && attempts == 0 && s.Undoer.Pending() == 0 && u.server.holds() == 0
	})
	require.NoError(u.server, u.session.Close(u.server.T.Context()), "no call is counted")
}
