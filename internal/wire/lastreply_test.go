// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

var errAway = errors.New("the server is away")

// fixedPoller always returns the same last error.
type fixedPoller struct{ last error }

func (p fixedPoller) LastError() error { return p.last }

// The error of an ended context is joined with the last known reply.
func TestEndedWaitReturnsTheLastReply(t *testing.T) {
	t.Parallel()
	live := context.WithoutCancel(t.Context()) // the cases outlive this function
	ended, end := context.WithCancel(live)
	end()
	for name, c := range map[string]struct {
		known     func(*testing.T, *wire.LastReply)
		with, not error
	}{
		"Nothing": {func(*testing.T, *wire.LastReply) {}, context.Canceled, errs.ErrHeld},
		"Held":    {func(_ *testing.T, k *wire.LastReply) { k.RecordHeld() }, errs.ErrHeld, errAway},
		"Refused": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			k.RecordHeld()
			require.NoError(t, k.Record(live, errAway))
		}, errAway, errs.ErrHeld},
		"PollRefused": {func(_ *testing.T, k *wire.LastReply) {
			k.SetPoller(fixedPoller{errAway})
			k.RecordHeld()
		}, errAway, errs.ErrHeld},
		"PollReplied": {func(_ *testing.T, k *wire.LastReply) {
			k.SetPoller(fixedPoller{})
			k.RecordHeld()
		}, errs.ErrHeld, errAway},
		"RepliedSince": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			require.NoError(t, k.Record(live, errAway))
			require.NoError(t, k.Record(live, errs.ErrHeld))
		}, errs.ErrHeld, errAway},
		"CutShort": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			k.RecordHeld()
			require.ErrorIs(t, k.Record(ended, errAway), context.Canceled)
		}, errs.ErrHeld, errAway},
		"Nil": {func(t *testing.T, k *wire.LastReply) {
			t.Helper()
			k.RecordHeld()
			require.NoError(t, k.Record(live, nil), "a try that came to nothing")
		}, context.Canceled, errs.ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var k wire.LastReply
			c.known(t, &k)
			err := k.Ended(ended)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, c.with)
			require.NotErrorIs(t, err, c.not)
		})
	}
}

// An error that waiting cannot clear ends the wait, and a reply that the lock is held resets the pauses.
func TestPermanentErrorEndsAWait(t *testing.T) {
	t.Parallel()
	var k wire.LastReply
	require.ErrorIs(t, k.Record(t.Context(), errs.ErrWrongKind), errs.ErrWrongKind)
	k.Failures = 3
	require.NoError(t, k.Record(t.Context(), errAway))
	require.Equal(t, 3, k.Failures)
	require.NoError(t, k.Record(t.Context(), errs.ErrHeld))
	require.Zero(t, k.Failures)
}
