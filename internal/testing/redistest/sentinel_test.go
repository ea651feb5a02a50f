// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestSentinelsReplaceAPrimaryThatIsAway(t *testing.T) {
	redistest.Slow(t, "sentinels replace a primary that has been silent for a while")
	t.Parallel()
	for name, away := range map[string]struct{ goes, comes func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t)
			old, replica := s.Primary(t), s.Replica(t)
			require.NotSame(t, old, replica)
			old.MustDo(t, "SET", "k", "v")
			old.AwaitCopied(t, replica)

			away.goes(old)
			require.Same(t, replica, s.AwaitLastFailover(t, old))
			require.Equal(t, "v", replica.MustDo(t, "GET", "k"))
			runs(t, s.Client(t, nil), "n")

			away.comes(old)
			s.AwaitReady(t)
			require.Same(t, replica, s.Primary(t))
			require.Same(t, old, s.Replica(t))
			require.Equal(t, "v", old.MustDo(t, "GET", "k"))
		})
	}
}

// With AwaitFailover alone the sentinels switch back during the stall.
func TestTheLastFailoverOutlastsAStall(t *testing.T) {
	redistest.Slow(t, "sentinels replace a primary that has been silent for a second")
	t.Parallel()
	s := redistest.StartSentinel(t)
	old := s.Primary(t)
	old.Kill()
	promoted := s.AwaitLastFailover(t, old)
	old.Restart()
	s.AwaitReady(t)
	promoted.Freeze()
	switched := func() bool { return strings.Contains(old.MustDo(t, "INFO", "replication").(string), "role:master") }
	require.False(t, redistest.PollUntil(3*time.Second, switched), "a stall of three seconds")
	promoted.Thaw()
	require.Same(t, promoted, s.Primary(t))
}

func TestRestartedSentinelKnowsTheOthers(t *testing.T) {
	redistest.Slow(t, "sentinels find each other by messages that they send at intervals")
	t.Parallel()
	s := redistest.StartSentinel(t)
	one := s.Sentinels()[0]
	id := one.MustDo(t, "SENTINEL", "MYID")
	one.Restart()
	require.Equal(t, id, one.MustDo(t, "SENTINEL", "MYID"))
	s.AwaitReady(t)
}
