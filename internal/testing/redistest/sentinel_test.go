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
