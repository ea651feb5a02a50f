// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P10: the time limit of the client is no context's.
func TestDialReportsASilentServerAsErrNoReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Freeze() // it takes connections still
	defer server.Thaw()
	_, err := signalbox.Dial(context.Background(), server.URL()+"?write_timeout=50ms")
	require.ErrorIs(t, err, signalbox.ErrNoReply)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

// The connection is made, and breaks when the first script is sent.
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
