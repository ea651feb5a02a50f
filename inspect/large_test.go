// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P10: a real server spends at most a tenth of its time on a list, and the list finds the one name among its keys. The pauses
// count by the server's clock, so a busy machine makes the share smaller.
func TestAListTakesATenthOfAServerWithAMillionKeys(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a list of a million keys takes several seconds")
	server := redistest.Start(t)
	server.MustDo(t, "EVAL", "for i = 1, 1000000 do redis.call('SET', 'cache:' .. i, 'x') end", 0)
	s := locktest.SteadySession(t, server)
	defer locktest.Must(t, reentrant.New(s, "order/1").Lock).Unlock()
	before, begun := server.CommandStats()["scan"].Time, time.Now()
	found := 0
	for entry, err := range inspect.Names(t.Context(), s, "") {
		require.NoError(t, err)
		require.Equal(t, "order/1", entry.Name)
		found++
	}
	worked, took := server.CommandStats()["scan"].Time-before, time.Since(begun)
	require.Equal(t, 1, found)
	require.LessOrEqual(t, worked, took/10+60*time.Millisecond, "of %v", took)
	t.Logf("the server worked for %v of %v", worked, took)
}
