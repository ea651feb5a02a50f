// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Speed: a permit without waiters costs the server 10 commands, including those of its scripts.
func TestAPermitWithoutWaitersCostsTenCommands(t *testing.T) {
	t.Parallel()
	const pairs = 20
	most := 10
	if redistest.IsOld(t) {
		most++ // PTTL before PEXPIRE
	}
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3)
	require.NoError(t, mustAcquire(t, sem, 1).Unlock(), "the server learns the scripts")
	before := redistest.Work(server)
	for range pairs {
		require.NoError(t, mustAcquire(t, sem, 1).Unlock())
	}
	require.LessOrEqual(t, redistest.Work(server)-before, int64(pairs*most))
}
