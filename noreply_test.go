// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// requireNoReply demands that an error says that the server was silent, and of no context that it
// ended.
func requireNoReply(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, signalbox.ErrNoReply)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestDialReportsASilentServerAsErrNoReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Freeze() // it takes connections still
	defer server.Thaw()
	_, err := signalbox.Dial(context.Background(), server.URL())
	requireNoReply(t, err)
}

func TestDialReportsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Freeze()
	defer server.Thaw()
	errCause := errors.New("the request\nwas given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(errCause) }) //nolint:forbidigo // fires, or is stopped below
	defer timer.Stop()
	_, err := signalbox.Dial(ctx, server.URL())
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errCause)
	require.NotErrorIs(t, err, signalbox.ErrNoReply)
	require.NotContains(t, err.Error(), "\n")
}

// The connection is made, and the server says nothing to the first script.
func TestDialReportsTheCauseOnceConnected(t *testing.T) {
	t.Parallel()
	errCause := errors.New("the request was given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	server := listenAsAnOldServerThat(t, func() (replies bool) {
		cancel(errCause)
		return false
	})
	_, err := signalbox.Dial(ctx, "redis://"+server.address)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errCause)
}

// A cause may be the end of another context, as in a group of goroutines whose first one to fail
// timed out.
func TestDialIsCancelledWhateverTheCause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, cause := range []error{context.DeadlineExceeded, fmt.Errorf("another call: %w", context.DeadlineExceeded)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := signalbox.Dial(ctx, server.URL())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, signalbox.ErrNoReply)
	}
}

// The client's own time limits are no context's, whichever way its calls go.
func TestTimeLimitOfTheClientIsErrNoReply(t *testing.T) {
	t.Parallel()
	for name, tune := range map[string]func(*rueidis.ClientOption){
		"Tuned":   signalbox.Tune,
		"Untuned": func(o *rueidis.ClientOption) { o.DisableCache = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := signalbox.NewSession(server.Client(t, func(o *rueidis.ClientOption) {
				o.ConnWriteTimeout = 200 * time.Millisecond
				tune(o)
			}))
			t.Cleanup(func() { _ = s.Close(endedContext()) })
			mu := reentrant.New(s, "a")
			require.NoError(t, mustLock(t, mu).Unlock())
			server.Freeze()
			defer server.Thaw()
			_, err := mu.TryLock(context.Background())
			requireNoReply(t, err)
		})
	}
}
