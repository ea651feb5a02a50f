// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A server that evicts keys when its memory is full is warned of once a session, at its first contact; one
// that does not, or does not say, is not.
func TestEvictionIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, policy string
		denied        bool
		warned        bool
	}{
		"Evicts":          {limit: "64mb", policy: "volatile-ttl", warned: true},
		"EvictsAnyKey":    {limit: "64mb", policy: "allkeys-lfu", warned: true},
		"NoEviction":      {limit: "64mb", policy: "noeviction"},
		"NoLimit":         {limit: "0", policy: "allkeys-lru"},
		"WithoutTheRight": {limit: "64mb", policy: "allkeys-lru", denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRefusalFixture(t, caller, redistest.WithArgs("--maxmemory", c.limit, "--maxmemory-policy", c.policy))
			if c.denied {
				f.do(t, "ACL", "SETUSER", caller, "-info")
			}
			locktest.Together(t, 8, func(i int) error { // whose first contacts may be at the same time
				lease, err := reentrant.New(f.holder, fmt.Sprint("warned/", i)).Lock(locktest.Context(t))
				if err != nil {
					return err
				}
				return lease.Unlock()
			})
			require.NoError(t, f.holder.Close(t.Context()), "which writes what was logged")
			said := f.secrets.Recorded()
			if !c.warned {
				require.Empty(t, said)
				return
			}
			require.Equal(t, 1, strings.Count(said, "\n"), said)
			require.Contains(t, said, "level=WARN")
			require.Contains(t, said, "set maxmemory-policy to noeviction")
			require.Contains(t, said, "maxmemory-policy="+c.policy)
			require.NoError(t, f.lock(t, f.other, "warned/0", longLease).Unlock())
			require.NoError(t, f.other.Close(t.Context()))
			require.Equal(t, 2, strings.Count(f.secrets.Recorded(), "\n"), "another session has a log of its own")
		})
	}
}
