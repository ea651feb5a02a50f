// SPDX-License-Identifier: Apache-2.0

package signalboxtest

import (
	"bufio"
	"context"
	"io"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// Partition cuts a session off: what it sends and receives is swallowed, and no connection breaks, as when a cable is
// cut. Its leases end when they can no longer be trusted, the default ones after 30 s at most. Use Advance, or a short
// lease (signalbox.WithRenewedLease). Heal ends it.
func (k *Kit) Partition(s *signalbox.Session) {
	k.tb.Helper()
	k.clientOf("Partition", s).network.partition()
}

// Heal ends a Partition. The session connects anew.
func (k *Kit) Heal(s *signalbox.Session) {
	k.tb.Helper()
	k.clientOf("Heal", s).network.heal()
}

// Pause makes a session stand still, as SIGSTOP, a suspended host or a long garbage collection does to a process: its timers
// fire nothing, it sends nothing, and what the server sends waits for it. Keys expire meanwhile, and its connections stay
// open. So its leases do not end in the process before Resume, and the locks go to other processes.
//
// The code under test is not stopped: let it call Pause, Advance and Resume itself, in the middle of its work. Code that
// runs beside it sees the time pass. Its calls wait for Resume, and Lease.Err and the Err of a lease's context
// compare the clock.
func (k *Kit) Pause(s *signalbox.Session) {
	k.tb.Helper()
	k.clientOf("Pause", s).network.pause()
	testkit.Pause(s)
}

// Resume ends a Pause. What was due meanwhile happens now: leases that are over end, and what the server sent arrives.
func (k *Kit) Resume(s *signalbox.Session) {
	k.tb.Helper()
	u := k.clientOf("Resume", s)
	testkit.Resume(s)
	u.network.resume()
}

func (k *Kit) clientOf(call string, s *signalbox.Session) *kitClient {
	k.tb.Helper()
	for _, client := range k.allClients() {
		if s != nil && client.session == s {
			return client
		}
	}
	k.tb.Fatalf("signalboxtest: %s: the session is not one of Kit.Session", call)
	return nil
}

// Stop stops the server: connections break, and new ones are refused. The server forgets its scripts, and with LoseData
// its data. Keys expire meanwhile.
func (k *Kit) Stop() {
	k.tb.Helper()
	k.mustRun("Stop")
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	for _, u := range k.allClients() {
		u.network.stop()
	}
	k.run("SCRIPT", "FLUSH")
	if k.losesData {
		k.server.FlushAll()
	}
}

// Start starts the server that Stop has stopped.
func (k *Kit) Start() {
	k.tb.Helper()
	k.mu.Lock()
	started := !k.stopped
	k.stopped = false
	k.mu.Unlock()
	if started {
		k.tb.Fatal("signalboxtest: Start: the server is running; call Stop first")
	}
	for _, u := range k.allClients() {
		u.network.start()
	}
	k.reconnect()
	if k.losesData {
		k.forgetAll()
	}
}

// forgetAll makes the kit's own session notice what the server lost.
func (k *Kit) forgetAll() {
	k.tb.Helper()
	k.mu.Lock()
	keys := slices.Collect(maps.Keys(k.held))
	k.mu.Unlock()
	for _, key := range keys {
		k.forget(key)
	}
}

// reconnect makes the kit's own client notice that its connection broke, so that the next call of the kit does not find
// it.
func (k *Kit) reconnect() {
	k.tb.Helper()
	const tries = 10
	var err error
	for range tries {
		client := k.allClients()[0].client
		if err = client.Do(context.Background(), client.B().Ping().Build()).Error(); err == nil {
			return
		}
	}
	k.tb.Fatalf("signalboxtest: Start: %v", err)
}

// run executes a command at the server, without a connection.
func (k *Kit) run(command ...string) {
	k.server.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), command)
}

// maxAdvance is how far Advance goes: longer than anything is kept.
const maxAdvance = 31 * 24 * time.Hour

// Advance lets d pass in a bubble of testing/synctest, for the server and for the code under test, and then waits until
// every goroutine of the bubble is blocked. d is from 0 to 31 days, since connections are probed each 10 s; any other fails
// the test. Outside of a bubble it fails the test, too: time cannot be moved there.
func (k *Kit) Advance(d time.Duration) {
	k.tb.Helper()
	if d < 0 || d > maxAdvance {
		k.tb.Fatalf("signalboxtest: Advance(%v): it must be from 0 to %v", d, maxAdvance)
	}
	defer func() {
		k.tb.Helper()
		if reason := recover(); reason != nil {
			k.tb.Fatalf("signalboxtest: Advance(%v): call it in a bubble of testing/synctest: %v", d, reason)
		}
	}()
	synctest.Wait() // what is due before comes first
	pause(d)
	synctest.Wait()
}
