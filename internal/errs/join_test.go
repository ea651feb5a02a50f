// SPDX-License-Identifier: Apache-2.0

package errs_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

var errGone = errors.New("gone")

func TestJoinedErrorsAreOneLineAndAllFound(t *testing.T) {
	t.Parallel()
	words := errors.New("three\r\nlines\n\nof words")
	err := errs.Join(nil, io.EOF, words, errs.WhileHeld(errGone))
	require.EqualError(t, err, "EOF; three; lines; of words; the lock is held: gone")
	for _, part := range []error{io.EOF, words, errGone, errs.ErrHeld} {
		require.ErrorIs(t, err, part)
	}
	require.NotErrorIs(t, err, errs.ErrLost)
}

func TestJoinOfOneErrorIsThatError(t *testing.T) {
	t.Parallel()
	require.NoError(t, errs.Join())
	require.NoError(t, errs.Join(nil, nil))
	require.Equal(t, io.EOF, errs.Join(nil, io.EOF))
	held := errs.WhileHeld(io.EOF)
	require.Equal(t, held, errs.WhileHeld(held))
}
