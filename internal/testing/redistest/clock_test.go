// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The server's clock differs from this machine's by the given time, before and after a restart. Its keys
// live as long as on other servers, and libfaketime leaves nothing behind.
func TestServerHasAClockOfItsOwn(t *testing.T) {
	t.Parallel()
	redistest.NeedClocks(t)
	for name, ahead := range map[string]time.Duration{"Ahead": time.Minute, "Behind": -time.Minute, "FarAhead": 30 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.WithClockAhead(ahead))
			for range 2 {
				before := time.Now()
				reported := clockOf(t, s)
				require.False(t, reported.Before(before.Add(ahead).Truncate(time.Microsecond)))
				require.False(t, reported.After(time.Now().Add(ahead)))
				s.MustDo(t, "SET", "a", "x", "PX", 60_000)
				left, _ := s.MustDo(t, "PTTL", "a").(int64)
				require.LessOrEqual(t, left, int64(60_000))
				require.Greater(t, left, int64(20_000))
				s.MustDo(t, "SET", "b", "x", "PX", 1)
				eventually(t, func() bool { return s.MustDo(t, "GET", "b") == nil }, "the end of a key")
				names, err := filepath.Glob("/dev/shm/*faketime*_" + strconv.Itoa(s.PID()))
				require.NoError(t, err)
				require.Empty(t, names)
				s.Restart()
			}
		})
	}
}

func clockOf(t *testing.T, s *redistest.Server) time.Time {
	t.Helper()
	reply, _ := s.MustDo(t, "TIME").([]any)
	require.Len(t, reply, 2)
	seconds, err := strconv.ParseInt(reply[0].(string), 10, 64)
	require.NoError(t, err)
	micros, err := strconv.ParseInt(reply[1].(string), 10, 64)
	require.NoError(t, err)
	return time.Unix(seconds, micros*1000)
}
