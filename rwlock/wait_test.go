// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P4: an ended context acquires nothing and sends nothing, also where a reader could enter without the server.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) {
	t.Parallel()
	w := alone(t)
	s := w.poller()
	mu, free := rwlock.New(s, w.name, signalbox.RenewedLease(time.Hour)), rwlock.New(s, w.of("free").name)
	require.NoError(t, must(t, free, write).Unlock())
	reader := must(t, mu, read)
	stopped := errors.New("the request was dropped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	nobody := func(context.Context, signalbox.Lease) error {
		t.Error("an ended context got the lock")
		return nil
	}
	require.Empty(t, w.server.SentBy(func() {
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
