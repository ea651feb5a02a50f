// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestOutcomeReadsAsItsReturnValues(t *testing.T) {
	t.Parallel()
	o := redistest.Outcome([]any{1, int64(-2), "text"})
	require.NoError(t, o.Err)
	require.Equal(t, 3, o.Reply.Len())
	require.Equal(t, int64(1), o.Reply.Int(0))
	require.Equal(t, int64(-2), o.Reply.Int(1))
	require.Equal(t, "text", o.Reply.Text(2))

	o = redistest.Outcome(7)
	require.NoError(t, o.Err)
	require.Equal(t, 1, o.Reply.Len())
	require.Equal(t, int64(7), o.Reply.Int(0))

	o = redistest.Outcome(redistest.Refusal("NOPERM no"))
	require.ErrorIs(t, o.Err, errs.ErrDenied)
}
