// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/acquire/retry"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
)

// locks is a wish for the reentrant lock of Redisson.
var locks = &queue.Request{Life: lease, ShareKey: local.ShareKey{Policy: local.Own, MaxHolds: 1}}

// P7: while a session has the lock its waiters send nothing and need no channel, and get it in their order.
func TestWaitersOfTheHoldersSessionSendNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.joinAs(p.server, layout.Redisson().Lock.Retry)
	first := u.must(locks)
	const waiters = 20
	var waits [waiters]<-chan tryOutcome
	sent := p.sent(func() {
		for n := range waits {
			waits[n] = u.later(t.Context(), locks)
		}
		_, err := u.queue.Try(t.Context(), locks)
		require.ErrorIs(t, err, errs.ErrHeld)
		p.gives(first)
		for n := range waits {
			a := p.has(waits[n])
			for _, later := range waits[n+1:] {
				require.Empty(t, later, "before its turn")
			}
			p.gives(a)
		}
	})
	require.Equal(t, int64(1+2*waiters), sent, "a release, and an acquire and a release each")
	p.heardBy(0)
	p.free()
}

// P6: a waiter of the session tries at once if a hold of the session is given up without a reply.
func TestOwnWaiterTriesAfterAnAbandonedHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.joinAs(p.server, layout.Redisson().Lock.Retry)
	first := u.must(locks)
	waits := u.later(t.Context(), locks)
	first.Abandon()
	p.gives(p.has(waits))
	p.free()
}

// A session whose release others were notified of does not try before they could. It does not wait if there are no others.
func TestSessionStandsBackIfOthersListen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.joinAs(p.server, layout.Redisson().Lock.Retry)
	first := u.must(locks)
	ctx, cancel := context.WithCancel(t.Context())
	client := p.server.Client(t, signalbox.Tune)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Receive(ctx, client.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
	}()
	p.heardBy(1)
	waits, released := u.later(t.Context(), locks), time.Now()
	p.gives(first)
	second := p.has(waits)
	require.GreaterOrEqual(t, time.Since(released), retry.BackOff)
	cancel()
	require.Error(t, within(t, ended))
	client.Close()
	p.gives(second)
	p.free()
}

// P3: the tokens of a lock that is handed over inside the process are a block, and those of a fenced lock are counted.
func TestGrantHasTheTokensOfItsLayout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.joinAs(p.server, layout.Redisson().Lock.Retry)
	a := u.must(locks)
	first, last := a.Grant().Tokens()
	require.Equal(t, a.Grant().Stamp.Token(), first)
	require.Equal(t, uint64(1023), last-first, "256 microseconds with four tokens each")
	p.gives(a)
	writes := p.joinAs(p.server, layout.Redisson().RWLock.Retry)
	a = writes.must(locks)
	require.Equal(t, a.Grant().Stamp, a.Grant().Last, "it is not handed over")
	p.gives(a)
	fenced := retry.New(u.session, retry.Config{Retry: layout.Redisson(layout.Fenced).Lock.Retry, Layout: layout.Redisson(layout.Fenced)})
	q := fenced.Use(&queue.LockKeys{Holder: "a", All: []string{"a", "counter"}, Channel: channel})
	p.server.MustDo(t, "SET", "counter", "41")
	b, err := q.Try(t.Context(), locks)
	require.NoError(t, err)
	first, last = b.Grant().Tokens()
	require.Equal(t, []uint64{42, 42}, []uint64{first, last})
	p.gives(b)
	q.Done()
}
