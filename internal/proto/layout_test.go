// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"crypto/rand"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

func session() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func TestHoldNamesItsSession(t *testing.T) {
	t.Parallel()
	l := proto.Native()
	seen := make(map[string]bool)
	for n := range uint64(1000) {
		id := session()
		hold := l.Hold(id, n)
		require.Equal(t, id, l.Session(hold))
		require.Len(t, hold, proto.HoldSize)
		require.False(t, seen[hold])
		seen[hold] = true
	}
}

// P9: the same attempt of two copies of a process is two holds.
func TestCopiesOfAProcessShareNoHold(t *testing.T) {
	t.Parallel()
	id := session()
	require.NotEqual(t, proto.Native().Hold(id, 1), proto.Native().Hold(id, 1))
}

// P1, P9: a hand-off of one kind cannot find the tickets of another, even after the holder key is lost.
func TestKindsOfOneNameShareNoQueue(t *testing.T) {
	t.Parallel()
	n, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, "a")
	require.NoError(t, err)
	l := proto.Native()
	kinds := map[string]string{n.Holder: "the holder key, which all locks share"}
	for _, g := range []proto.Table{l.Fair.Table, l.RWLock.Table, l.Semaphore.Table} {
		keys := g.Keys(g.Names(n))
		require.Contains(t, []string{n.HeartbeatsKey(), n.RWHeartbeats(), n.PermitsHeartbeats()}, keys.All[len(keys.All)-1], "the last key has the heartbeats")
		for _, key := range keys.All {
			if key != n.Holder {
				require.Empty(t, kinds[key], "%s of %s", key, g.RegistryName)
				kinds[key] = g.RegistryName
			}
		}
	}
}
