// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2, P3: a holder whose key was deleted learns it from the next renewal, well before the lease would have
// ended, and the next holder has a greater token and is left alone.
func TestADeletedKeyIsReportedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	each(t, takeKeys)
}

func takeKeys(t *testing.T, fx *fixture) {
	t.Helper()
	const life = 3 * redistest.Patience // which is renewed after a third of it
	closed := func(t *testing.T, c <-chan struct{}) {
		t.Helper()
		redistest.ReceiveFor(t, life*2/3, "the loss, at the holder", c)
	}
	k := fx.kind
	for name, take := range map[string][]any{
		"Deleted":  {"DEL", k.Key("taken")},
		"Flushed":  {"FLUSHALL"},
		"Ended":    {"PEXPIRE", k.Key("taken"), 1},
		"Replaced": {"SET", k.Key("taken"), "somebody's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			first, err := k.New(f.holder, "taken", signalbox.WithRenewedLease(life)).Lock(locktest.Context(t))
			require.NoError(t, err)
			bound := first.Bind(t.Context())
			f.server.MustDo(t, take...)
			if name == "Replaced" {
				_, err := k.rival.New(f.other, "taken").TryLock(locktest.Context(t))
				require.ErrorIs(t, err, signalbox.ErrWrongKind)
				closed(t, first.Done())
				require.ErrorIs(t, first.Unlock(), signalbox.ErrLost)
				require.Equal(t, "somebody's", f.server.MustDo(t, "GET", k.Key("taken")))
				return
			}
			second, err := k.rival.New(f.other, "taken").Lock(locktest.Context(t))
			require.NoError(t, err)
			require.Greater(t, second.Token(), first.Token())
			closed(t, bound.Done())
			require.ErrorIs(t, first.Err(), signalbox.ErrLost)
			require.ErrorIs(t, first.Unlock(), signalbox.ErrLost)
			require.ErrorIs(t, first.Unlock(), signalbox.ErrLost)
			require.NoError(t, second.Err())
			require.NoError(t, second.Unlock())
			require.ErrorIs(t, second.Unlock(), signalbox.ErrNotHeld)
			f.view.NoImmortals(t)
		})
	}
}
