// SPDX-License-Identifier: Apache-2.0

package wiretest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnOutcomeReadsAsWhatWasReturned(t *testing.T) {
	t.Parallel()
	o := wiretest.Outcome([]any{1, int64(-2), "text"})
	require.NoError(t, o.Err)
	require.Equal(t, 3, o.Reply.Len())
	require.Equal(t, int64(1), o.Reply.Int(0))
	require.Equal(t, int64(-2), o.Reply.Int(1))
	require.Equal(t, "text", o.Reply.Text(2))

	o = wiretest.Outcome(7)
	require.NoError(t, o.Err)
	require.Equal(t, 1, o.Reply.Len())
	require.Equal(t, int64(7), o.Reply.Int(0))

	o = wiretest.Outcome(wiretest.Refusal("NOPERM no"))
	require.ErrorIs(t, o.Err, errs.ErrDenied)
}
