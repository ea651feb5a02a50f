// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// isSharded is 1 if the server has sharded channels, which came with Redis 7.0.
func isSharded(t *testing.T) int64 {
	t.Helper()
	if redistest.IsOld(t) {
		return 0
	}
	return 1
}

func TestHelloReturnsWhetherKeysAreEvicted(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t, redistest.WithArgs("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"))
	require.Equal(t, []any{int64(1), digits(noon), "67108864", "allkeys-lru", isSharded(t)}, f.run(scripts.SessionHello))
}
