// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// The keys are those of the session's prefix, whether it has a client or not.
func TestKeysAreThoseOfTheSession(t *testing.T) {
	t.Parallel()
	s := signalbox.NewSession(nil, signalbox.WithPrefix("shop:"))
	keys, err := testkit.KeysOf(s, "a")
	require.NoError(t, err)
	require.Equal(t, []string{"shop:{a}:lock", "shop:{a}:permits"}, keys.Holds)
	require.Equal(t, []string{"shop:{a}:latch", "shop:{a}:once"}, keys.Stored)
	require.Contains(t, keys.Queues, "shop:{a}:queue")
	_, err = testkit.KeysOf(s, "")
	require.ErrorIs(t, err, signalbox.ErrBadName)

	epoch := testkit.EpochOf(s, time.UnixMicro(1_700_000_000_000_000))
	require.Equal(t, "shop:epoch", epoch.Key)
	require.Equal(t, "sb1e"+"1699395200000000"+"1700000000000000", epoch.Value)
}
