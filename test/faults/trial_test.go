// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

const (
	short = 30 * time.Millisecond
	// long is more than the clients here wait for a silent connection.
	long = 1300 * time.Millisecond
	// settled is how long after an acquire was given up nothing of it may be left: the
	// patience of 3 s, and what it takes to find out that a connection is dead, twice: 8 s, and more on a busy
	// machine.
	settled = redistest.Patience
)

// world is what trials share: a server, sessions that no fault strikes, a view.
type world struct {
	kind   kind
	server *redistest.Server
	holder *signalbox.Session
	other  *signalbox.Session
	view   *locktest.View
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server) // so that each is one request from the start
	return &world{reentrantLocks(), server, locktest.Session(t, server), locktest.Session(t, server), locktest.NewView(t, server)}
}

// outcome is what became of a trial.
type outcome struct {
	struck  bool          // every fault did
	leased  bool          // the caller got the lock
	settled time.Duration // after which nothing was under way any more
}

// play runs one trial on a lock of its own.
func (w *world) play(name string, tr trial) (o outcome, err error) {
	proxy, err := redistest.StartProxy(w.server.Addr())
	if err != nil {
		return o, err
	}
	defer proxy.Close()
	proxy.SetMatch(tr.kind.counts(tr.scenario))
	client, err := dial(proxy)
	if err != nil {
		return o, err
	}
	defer client.Close()
	victim := signalbox.NewSession(client)

	run, err := w.acquire(name, tr, proxy, victim)
	if err == nil {
		o.leased = run.err == nil
		o.settled, err = w.inspect(name, tr, proxy, victim, run)
		o.struck = run.struck() // some of them only while it was undone
	}
	ctx, cancel := context.WithTimeout(context.Background(), settled)
	defer cancel()
	begun := time.Now()
	err = errors.Join(err, victim.Close(ctx))
	if took := time.Since(begun); took > redistest.Patience/2 {
		err = errors.Join(err, fmt.Errorf("close took %v", took))
	}
	return o, err
}

// dial answers a client that is connected. On a busy machine the connection of one of many that dial at the same time may take
// longer than clients here wait for it. Nothing that counts is sent meanwhile.
func dial(proxy *redistest.Proxy) (client rueidis.Client, err error) {
	redistest.Became(redistest.Patience, func() bool {
		options := rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}
		locktest.Tuned(&options)
		client, err = rueidis.NewClient(options)
		return err == nil
	})
	return client, err
}

// inspect looks at what a call left behind.
func (w *world) inspect(name string, tr trial, proxy *redistest.Proxy, victim *signalbox.Session, run *attempt) (time.Duration, error) {
	begun := time.Now()
	if err := run.judge(tr); err != nil {
		return 0, err
	}
	if run.err == nil {
		deadline := run.lease.Deadline() // a machine that stands still past it has ended the lease
		err := w.validOf(tr.kind, name, run.lease)
		if err == nil {
			err = locktest.Confirmed(run.lease.Unlock())
		}
		if err != nil && time.Now().Before(deadline) {
			return 0, fmt.Errorf("valid, and given back: %w", err)
		}
	}
	if !redistest.Became(settled, func() bool { return locktest.Settling(victim) == 0 && w.view.Free(name) }) {
		left, err := w.view.Hold(name)
		return 0, errors.Join(fmt.Errorf("after %v: %d settlements, on the server %+v", settled, locktest.Settling(victim), left), err)
	}
	took := time.Since(begun)
	if run.struck() && tr.faults != nil && tr.faults[0].Kind == redistest.DelayRequest {
		// It arrives all the same, and must not take effect.
		if !redistest.Became(settled, func() bool { return proxy.Replies() >= proxy.Requests() }) {
			return took, errors.New("the delayed request never arrived")
		}
	}
	lease, err := tr.kind.rival.New(w.other, name).TryLock(context.Background())
	if err != nil {
		return took, fmt.Errorf("another client: %w", err)
	}
	if run.err == nil && lease.Token() <= run.lease.Token() {
		return took, fmt.Errorf("the token fell from %d to %d", run.lease.Token(), lease.Token())
	}
	return took, locktest.Confirmed(lease.Unlock())
}

// valid says what is wrong with a lease of the world's kind that was just given, or nil.
func (w *world) valid(name string, lease signalbox.Lease) error {
	return w.validOf(w.kind, name, lease)
}

func (w *world) validOf(k kind, name string, lease signalbox.Lease) error {
	deadline := lease.Deadline()
	h, err := w.view.Hold(name)
	switch {
	case err != nil:
		return err
	case lease.Err() != nil:
		return fmt.Errorf("a lease that is over: %w", lease.Err())
	case h.ID == "" || h.Token != lease.Token() && (!k.retold || h.Token < lease.Token()):
		return fmt.Errorf("the server knows nothing of token %d: %+v", lease.Token(), h)
	case deadline.After(h.Ends):
		return fmt.Errorf("the lease ends at %v, its key before", deadline)
	}
	return nil
}
