// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redlock"
)

// P10: servers that refuse for now are waited for, where those that are left are no quorum; giving back works meanwhile.
func TestServersThatRefuseForNowAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	mu := w.lock("a")
	lease := w.mustLockAll(mu, "a")
	full := func(limit string, servers ...int) {
		for _, i := range servers {
			w.servers[i].MustDo(t, "CONFIG", "SET", "maxmemory", limit)
		}
	}
	full("1", 0, 1)
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrRefused)
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	short, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err = mu.Lock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, signalbox.ErrRefused)
	waiting := lockLater(t.Context(), mu)
	full("0", 0)
	require.NoError(t, mustHave(t, waiting).Unlock())
	full("0", 1)
	w.awaitFree("a")
}

// P10: what waiting does not mend is the error where it leaves no quorum, and costs no more than votes where it does.
func TestServersThatDenyAreServersWithoutAVote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	as := func(denied ...int) []*signalbox.Session {
		sessions := w.sessions()
		for _, i := range denied {
			// The least rights of docs/security.md, less that to acquire.
			w.servers[i].MustDo(t, "ACL", "SETUSER", "reader", "on", ">secret", "resetkeys", "~sb:*", "resetchannels", "&sb:*", "-@all",
				"+eval", "+evalsha", "+time", "+get", "+pttl", "+pexpire", "+publish", "+subscribe", "+unsubscribe", "+ping", "+info")
			sessions[i] = signalbox.NewSession(w.servers[i].Client(t, func(o *rueidis.ClientOption) {
				signalbox.Tune(o)
				o.Username, o.Password, o.ForceSingleClient = "reader", "secret", true
			}))
			t.Cleanup(func() { _ = sessions[i].Close(endedContext()) })
		}
		return sessions
	}
	require.NoError(t, mustLock(t, redlock.New(as(2), "a")).Unlock())
	w.awaitFree("a")
	denied := redlock.New(as(1, 2), "a")
	for _, lock := range []func(context.Context) (signalbox.Lease, error){denied.Lock, denied.TryLock} {
		_, err := lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrDenied)
		require.ErrorContains(t, err, "of 3")
	}
	w.awaitFree("a")
}

// P10: servers that are away are waited for, and TryLock says which are.
func TestServersThatAreAwayAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	mu := w.lock("a", signalbox.RenewedLease(moment))
	require.NoError(t, mustLock(t, mu).Unlock())
	for _, s := range w.servers[1:] {
		s.Kill()
	}
	// The vote is lost by the first two that fail: where the one that is there does not answer in time it is one of them.
	await(t, "the names of those that are away", func() bool {
		_, err := mu.TryLock(t.Context())
		require.Error(t, err)
		return strings.Contains(err.Error(), "server 2 of 3") && strings.Contains(err.Error(), "server 3 of 3")
	})
	waiting := lockLater(t.Context(), mu)
	for _, s := range w.servers[1:] {
		s.Restart() // empty: they vote again after one lease
	}
	require.NoError(t, mustHave(t, waiting).Unlock())
	w.awaitFree("a")
}
