// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P10: the error says both that the wait is over and what the server said last; also that of a reader who waited for
// another.
func TestErrHeldIsJoinedWhereTheLastAnswerWasHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := must(t, newLock(t, server, "a"), write)
	stopped := errors.New("the request was dropped")
	for _, want := range []error{context.Canceled, stopped} {
		for _, take := range []side{write, read} {
			proxy := redistest.NewProxy(t, server.Addr())
			mu := newLock(t, proxy, "a")
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting := []<-chan outcome{queue(ctx, t, server, mu, take, 1)}
			if users, _ := mu.InRoom(); users > 0 {
				waiting = append(waiting, follow(ctx, t, mu, 1))
			}
			proxy.SetMatch(isOf(scripts.RWLockLook))
			looks := proxy.Replies()
			await(t, "a look, after the answer", func() bool { return proxy.Replies() > looks })
			cancel(want)
			for _, answered := range waiting {
				err := mustFail(t, answered)
				require.ErrorIs(t, err, signalbox.ErrHeld)
				require.ErrorIs(t, err, want)
				require.ErrorIs(t, err, context.Canceled)
			}
			await(t, "the leaving", func() bool { return inLine(t, server, "a") == 0 })
		}
	}
	require.NoError(t, holder.Unlock())
}

// P10: a server that is away is waited for within the context, and named in the error. Nobody said that the lock is held.
func TestAnUnreachableServerIsWaitedForWithinTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, take := range map[string]side{"Write": write, "Read": read} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr())
			mu := newLock(t, proxy, name)
			require.NoError(t, must(t, mu, take).Unlock())
			proxy.Refuse()
			proxy.CutAll()
			ctx, cancel := context.WithTimeout(t.Context(), moment)
			defer cancel()
			_, err := take(mu, ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, signalbox.ErrHeld)
			var refused *net.OpError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "dial", refused.Op)
			waiting := later(t.Context(), mu, take)
			proxy.Accept()
			require.NoError(t, mustHave(t, waiting).Unlock())
		})
	}
}

// P4: an ended context acquires nothing and sends nothing, also where a reader could enter without the server.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newPoller(t, server)
	mu, free := rwlock.New(s, "a", signalbox.RenewedLease(time.Hour)), rwlock.New(s, "b")
	require.NoError(t, must(t, free, write).Unlock())
	reader := must(t, mu, read)
	stopped := errors.New("the request was dropped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	nobody := func(context.Context, signalbox.Lease) error {
		t.Error("an ended context got the lock")
		return nil
	}
	require.Empty(t, sentBy(server, func() {
		for _, mu := range []*rwlock.Lock{mu, free} {
			for _, take := range []side{tryWrite, tryRead, write, read} {
				_, err := take(mu, ctx)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, stopped)
				require.NotErrorIs(t, err, signalbox.ErrHeld)
			}
			require.ErrorIs(t, mu.Do(ctx, nobody), stopped)
			require.ErrorIs(t, mu.RDo(ctx, nobody), stopped)
			require.ErrorIs(t, mu.ForceUnlock(ctx), stopped)
			for _, err := range mu.Holders(ctx) {
				require.ErrorIs(t, err, stopped)
			}
		}
	}))
	require.NoError(t, reader.Unlock())
}

// P4: a call whose answer never came is undone as soon as the server hears of it.
func TestACallWithoutAnAnswerIsUndone(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]side{"Write": write, "Read": read, "TryWrite": tryWrite, "TryRead": tryRead} {
		for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.DelayReply, redistest.DelayRequest} {
			t.Run(name+kind.String(), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr())
				mu := newLock(t, proxy, "a")
				require.NoError(t, must(t, mu, take).Unlock())
				proxy.Refuse()
				proxy.SetMatch(isOf(scripts.RWLockEnter))
				lost := proxy.Arm(redistest.Fault{Kind: kind, Delay: delay})
				ctx, cancel := context.WithCancel(t.Context())
				trying := later(ctx, mu, take)
				within(t, "the fault", lost.Fired())
				cancel()
				_ = mustFail(t, trying)
				proxy.Accept()
				other := newLock(t, server, "a")
				require.NoError(t, must(t, other, write).Unlock())
				awaitFree(t, server, "a")
			})
		}
	}
}
