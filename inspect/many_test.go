// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// Fills a server with names that are held, and as many that were released.
const fill = `
for i = ARGV[1], ARGV[2] do
  local key = 'sb:{many/' .. i .. '}:lock'
  redis.call('SET', key, 'sb1l1795246514376753' .. string.rep('a', 41) .. 'r-' .. 'label', 'PX', 60000)
  redis.call('SET', 'sb:{idle/' .. i .. '}:lock', 'sb1-1795246514376753', 'PX', 60000)
end`

func TestTenThousandNamesTakeBoundedCalls(t *testing.T) {
	t.Parallel()
	const names = 10_000
	server := redistest.Start(t)
	for from := 1; from <= names; from += 1000 {
		server.MustDo(t, "EVAL", fill, 0, from, from+999)
	}
	s := locktest.SteadySession(t, server)
	holders := 0
	seen := make(map[string]bool)
	sent := server.SentBy(func() {
		for entry, err := range inspect.Names(locktest.Context(t), s, "many/") {
			require.NoError(t, err)
			require.False(t, seen[entry.Name])
			seen[entry.Name] = true
			holders += entry.HolderCount
		}
	})
	require.Len(t, seen, names)
	require.Equal(t, names, holders)
	require.LessOrEqual(t, sent["scan"], int64(2*names/500+2))
	require.LessOrEqual(t, sent["evalsha"], int64(names))
	require.LessOrEqual(t, sent["exists"], int64(names))

	// The loop can be left.
	for range inspect.Names(locktest.Context(t), s, "many/") {
		break
	}
}

func TestAPageIsOnePipeline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "EVAL", fill, 0, 1, 500)
	s := locktest.SteadySession(t, server)
	require.Len(t, all(t, s, "many/"), 500) // the server knows the scripts
	before := reads(t, server)
	require.Len(t, all(t, s, "many/"), 500)
	require.Less(t, reads(t, server)-before, int64(200))
}

func reads(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	var n int64
	text := fmt.Sprint(server.MustDo(t, "INFO", "stats"))
	_, rest, found := strings.Cut(text, "total_reads_processed:")
	require.True(t, found)
	_, err := fmt.Sscan(rest, &n)
	require.NoError(t, err)
	return n
}

func TestEachNodeOfAClusterIsListed(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	s := locktest.Session(t, cluster)
	owners := make(map[*redistest.Server]int)
	for i := range 30 {
		name := fmt.Sprintf("n/%d", i)
		lease := locktest.Must(t, reentrant.New(s, name, signalbox.WithFixedLease(redistest.Patience)).Lock)
		defer lease.Unlock()
		owners[cluster.Owner(t, cluster.Slot(t, locktest.Key(name)))]++
	}
	require.Len(t, owners, 3)
	require.Len(t, all(t, s, "n/"), 30)
	l := running(t, locktest.Session(t, cluster), "n/")
	require.Len(t, l.Snapshot(locktest.Context(t)).Entries, 30)

	frozen := cluster.Owner(t, cluster.Slot(t, locktest.Key("n/0")))
	frozen.Freeze()
	defer frozen.Thaw()
	entries, failures := listed(t, s, "n/")
	require.Len(t, entries, 30-owners[frozen])
	require.Len(t, failures, 1)
	var node *inspect.NodeError
	require.ErrorAs(t, failures[0], &node)
	require.Equal(t, frozen.Addr(), node.Node)
	redistest.Await(t, "the names of the other nodes", func() bool {
		now := l.Snapshot(locktest.Context(t))
		return errors.As(now.Err, &node) && len(now.Entries) == 30-owners[frozen]
	})
	frozen.Thaw()
	redistest.Await(t, "all names", func() bool {
		now := l.Snapshot(locktest.Context(t))
		return now.Err == nil && len(now.Entries) == 30
	})
}
