// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P10: servers that refuse for now are waited for, if those that are left are no quorum; releasing works meanwhile.
func TestServersThatRefuseForNowAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 2)
	mu := w.lock()
	lease := w.mustLockAll(mu)
	full := func(limit string, servers ...int) {
		for _, i := range servers {
			w.servers[i].MustDo(t, "CONFIG", "SET", "maxmemory", limit)
		}
	}
	full("1", 0, 1)
	require.NoError(t, lease.Unlock())
	w.awaitFree()
	err := mustFail(t, mu, signalbox.ErrRefused)
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	for _, p := range w.proxies {
		p.SetMatch(locktest.RunsScript(scripts.RedlockAcquire))
		p.ResetCount()
	}
	ctx, cancel := context.WithCancel(locktest.Context(t))
	defer cancel()
	waiting := locktest.LaterWith(ctx, mu.Lock)
	redistest.Await(t, "a second vote", func() bool { return w.proxies[0].Requests() > 1 && w.proxies[1].Requests() > 1 })
	cancel()
	err = locktest.MustFail(t, waiting)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, signalbox.ErrRefused)
	waiting = locktest.LaterWith(locktest.Context(t), mu.Lock)
	full("0", 0)
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	w.awaitFree()
}

// P10: what waiting does not mend is the error if it leaves no quorum, and costs no more than votes if it does.
func TestServersThatDenyHaveNoVote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	as := func(denied ...int) []*signalbox.Session {
		sessions := w.sessions()
		for _, i := range denied {
			// The least rights of docs/security.md, less that to acquire.
			w.servers[i].MustDo(t, "ACL", "SETUSER", "reader", "on", ">secret", "resetkeys", "~sb:*", "resetchannels", "&sb:*", "-@all",
				"+eval", "+evalsha", "+time", "+get", "+pttl", "+pexpire", "+publish", "+subscribe", "+unsubscribe", "+ping", "+info")
			sessions[i] = locktest.SessionOf(t, locktest.ClientAs(t, w.servers[i], "reader", "secret"))
		}
		return sessions
	}
	require.NoError(t, locktest.Must(t, redlock.New(as(2), w.name).Lock).Unlock())
	w.awaitFree()
	denied := redlock.New(as(1, 2), w.name)
	for _, lock := range []func(context.Context) (signalbox.Lease, error){denied.Lock, denied.TryLock} {
		_, err := lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrDenied)
		require.ErrorContains(t, err, "of 3")
	}
	w.awaitFree()
}
