// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// A process begins while a minority is away, by clients that are there before their servers; these vote when they are back.
func TestAProcessBeginsWhileAMinorityIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ away, back func(w *world) }{
		"Dead":   {func(w *world) { w.servers[1].Kill() }, func(w *world) { w.servers[1].Restart() }},
		"Gone":   {func(w *world) { w.proxies[1].Refuse() }, func(w *world) { w.proxies[1].Accept() }},
		"Frozen": {func(w *world) { w.servers[1].Freeze() }, func(w *world) { w.servers[1].Thaw() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			c.away(w)
			var sessions []*signalbox.Session
			for _, p := range w.proxies {
				client, _ := rueidis.NewClient(firstClient(p.Addr()))
				require.NotNil(t, client)
				t.Cleanup(client.Close)
				s := signalbox.NewSession(client)
				t.Cleanup(func() { _ = s.Close(endedContext()) })
				sessions = append(sessions, s)
			}
			mu := redlock.New(sessions, "a", signalbox.RenewedLease(steady))
			require.NoError(t, mu.Check())
			require.NoError(t, mustLock(t, mu).Unlock())
			c.back(w)
			await(t, "its vote", func() bool {
				lease := mustLock(t, mu)
				defer func() { _ = lease.Unlock() }()
				return strings.HasPrefix(w.value(1, "a"), "sb1q")
			})
			w.awaitFree("a")
		})
	}
}

// firstClient answers options of a client that there is whether or not its server is up.
func firstClient(addr string) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, ConnWriteTimeout: time.Second}
	signalbox.Tune(&o)
	return o
}

// P1: a replica that took over has what it was told of, the epoch with it, and may not have been told of a hold: it grants nothing for one
// lease.
func TestAReplicaThatTookOverGrantsNothingForOneLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	replica := redistest.Start(t)
	host, port, err := net.SplitHostPort(w.servers[2].Addr())
	require.NoError(t, err)
	replica.MustDo(t, "REPLICAOF", host, port)
	require.NoError(t, mustLock(t, w.lock("a")).Unlock())
	await(t, "the epoch at the replica", func() bool {
		reply, err := replica.Do("EXISTS", "sb:epoch")
		return err == nil && reply == int64(1)
	})
	replica.MustDo(t, "REPLICAOF", "NO", "ONE")
	sessions := append(w.sessions()[:2], newSession(t, replica))
	w.servers[2].Kill()
	w.servers[0].Kill() // so it would be the second of three
	longer := redlock.New(sessions, "b", signalbox.RenewedLease(moment), redlock.GreatestLease(time.Hour))
	await(t, "its refusal", func() bool {
		_, err := longer.TryLock(t.Context())
		require.Error(t, err)
		return errors.Is(err, signalbox.ErrRefused) && strings.Contains(err.Error(), "server 3 of 3") &&
			strings.Contains(err.Error(), "lost its data lately")
	})
	_ = mustLock(t, redlock.New(sessions, "b", signalbox.RenewedLease(moment))).Unlock()
}

// P4: what a server grants when it thaws is given back, long before it would end.
func TestALateGrantOfAServerThatThawsIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	sessions := w.sessions()
	warm := mustLock(t, redlock.New(sessions, "a"))
	w.awaitHolds("a", 3) // all know the scripts and the time
	require.NoError(t, warm.Unlock())
	w.awaitFree("a")
	w.servers[1].Freeze()
	var acquires atomic.Int64
	w.proxies[1].SetMatch(runs(scripts.RedlockAcquire))
	w.proxies[1].OnRequest(func(int, []string) { acquires.Add(1) })
	// For longer than this test waits. By another Lock: the first one's would not ask a server that has not told it that it is free.
	lease := mustLock(t, redlock.New(sessions, "a"))
	await(t, "the acquire on its way to the frozen server", func() bool { return acquires.Load() > 0 })
	require.NoError(t, lease.Unlock())
	w.servers[1].Thaw()
	w.awaitFree("a")
	w.nothing(sessions)
}
