// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/watch"
)

// shown returns what an observer is shown first, or the error that ends its observation.
func shown(t *testing.T, r *registry, l *watch.Latest[string], from uint64) (value string, err error) {
	t.Helper()
	w := r.joinWithoutPoll(t, "shown")
	defer w.subject.Leave()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = l.Observe(ended, &w.subject, from, func(v string, _ error) bool {
		value = v
		return false
	})
	return value, err
}

// The replies to two polls may come in any order, and one may come after the end.
func TestOnlyALaterPollChangesWhatIsShown(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, redistest.Start(t).Client(t, locktest.Steady))
	l := watch.NewLatest[string](0)
	_, err := shown(t, r, &l, 1)
	require.ErrorIs(t, err, context.Canceled, "nothing is known")

	r.locked(func() {
		l.ShowLocked(watch.Poll{Number: 2}, "second", nil)
		l.ShowLocked(watch.Poll{Number: 1}, "first", nil)
		l.FailLocked(watch.Poll{Number: 1}, watch.Failure{Err: errs.ErrNoReply})
	})
	value, err := shown(t, r, &l, 1)
	require.NoError(t, err)
	require.Equal(t, "second", value)
	_, err = shown(t, r, &l, 3)
	require.ErrorIs(t, err, context.Canceled, "older than the observer")

	r.locked(func() {
		l.CloseLocked(errs.ErrClosed)
		l.ShowLocked(watch.Poll{Number: 3}, "third", nil)
		require.True(t, l.IsFinalLocked())
	})
	_, err = shown(t, r, &l, 1)
	require.ErrorIs(t, err, errs.ErrClosed, "a poll was under way when the session closed")
}
