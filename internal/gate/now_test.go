// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTryNowIsRefusedWhereOthersAreBeforeOrTheLockIsToBeLeftAlone(t *testing.T) {
	t.Parallel()
	for _, s := range []state{contending, held, releasing} {
		g := gateIn(t, s)
		require.False(t, g.TryNow(now))
		require.Equal(t, s, g.inState())
	}
	g := gateIn(t, releasing)
	g.Vacated(now.Add(StandBack))
	require.True(t, g.StandsBack(now))
	require.False(t, g.TryNow(now))
	require.Equal(t, idle, g.inState())
	require.True(t, g.StandsBack(now), "asking does not end it")
	later := now.Add(StandBack)
	require.False(t, g.StandsBack(later))
	require.True(t, g.TryNow(later))
	require.Equal(t, contending, g.inState())
}
