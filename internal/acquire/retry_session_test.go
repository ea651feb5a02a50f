// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/redisson"
)

// exclusive is a request for the reentrant lock of Redisson.
var exclusive = &queue.Request{Life: lease, ShareKey: waitroom.ShareKey{Policy: waitroom.Own, MaxHolds: 1}}

// P7: while a session has the lock its waiters send nothing and need no channel, and get it in their order.
func TestWaitersOfTheHoldersSessionSendNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinAs(f.server, shared().Lock.Retry)
	first := u.acquire(exclusive)
	const waiters = 20
	var waits [waiters]<-chan outcome
	sent := f.scriptsDuring(func() {
		for n := range waits {
			waits[n] = u.startAcquire(t.Context(), exclusive)
		}
		_, err := u.Try(t.Context(), u.keys, exclusive)
		require.ErrorIs(t, err, errs.ErrHeld)
		f.release(first)
		for n := range waits {
			a := f.receiveHold(waits[n])
			for _, later := range waits[n+1:] {
				require.Empty(t, later, "before its turn")
			}
			f.release(a)
		}
	})
	require.Equal(t, int64(1+2*waiters), sent, "a release, and an acquire and a release each")
	f.awaitListeners(0)
	f.awaitFree()
}

// A session whose release others were notified of does not try before they could. It does not wait if there are no others.
func TestSessionBacksOffIfOthersListen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinAs(f.server, shared().Lock.Retry)
	first := u.acquire(exclusive)
	ctx, cancel := context.WithCancel(t.Context())
	client := f.server.Client(t, signalbox.Tune)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Receive(ctx, client.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
	}()
	f.awaitListeners(1)
	waits, released := u.startAcquire(t.Context(), exclusive), time.Now()
	f.release(first)
	second := f.receiveHold(waits)
	require.GreaterOrEqual(t, time.Since(released), acquire.BackOff)
	cancel()
	require.Error(t, redistest.Receive(t, "the end of a call", ended))
	client.Close()
	f.release(second)
	f.awaitFree()
}

// P3: the tokens of a lock that is handed over inside the process are a block, and those of a fenced lock are counted.
func TestGrantHasTheTokensOfItsLayout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinAs(f.server, shared().Lock.Retry)
	a := u.acquire(exclusive)
	first, last := a.Grant().Tokens()
	require.Equal(t, a.Grant().Stamp.Token(), first)
	require.Equal(t, uint64(1023), last-first, "256 microseconds with four tokens each")
	f.release(a)
	writes := f.joinAs(f.server, shared().RWLock.Retry)
	a = writes.acquire(exclusive)
	require.Equal(t, a.Grant().Stamp, a.Grant().Last, "it is not handed over")
	f.release(a)
	fenced := acquire.NewRetryRegistry(u.session, acquire.RetryConfig{
		Retry: shared(redisson.Fenced).Lock.Retry, Layout: shared(redisson.Fenced),
		Keys: func(proto.Set) proto.Keys {
			return proto.Keys{All: []string{"a", "counter"}, Channel: channel}
		},
	})
	f.server.MustDo(t, "SET", "counter", "41")
	b, err := fenced.Try(t.Context(), u.keys, exclusive)
	require.NoError(t, err)
	first, last = b.Grant().Tokens()
	require.Equal(t, []uint64{42, 42}, []uint64{first, last})
	f.release(b)
	b.Done()
}
