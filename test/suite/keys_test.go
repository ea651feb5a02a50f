// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// keysOf returns the keys of a name.
func (w *World) keysOf(p *Process, name string) testkit.Keys {
	w.Helper()
	keys, err := testkit.KeysOf(p.Session, p.prefix+name, p.options...)
	require.NoError(w, err)
	return keys
}

// Keys returns the keys of a name that have a holder or a waiter, and those that never end.
func (w *World) Keys(p *Process, name string) (held, immortal []string) {
	w.Helper()
	keys := w.keysOf(p, name)
	for i, some := range [][]string{keys.Holds, keys.Queues, keys.Stored} {
		for _, key := range some {
			left, err := w.Do(key, "PTTL").AsInt64()
			require.NoError(w, err)
			const never, noKey = -1, -2
			if left == never {
				immortal = append(immortal, key)
			}
			isQueue := i == 1 && strings.HasSuffix(key, "queue")
			if left != noKey && (i == 0 || isQueue) && w.isHeld(key) {
				held = append(held, key)
			}
		}
	}
	return held, immortal
}

// isHeld reports whether a key of holders or waiters has some.
func (w *World) isHeld(key string) bool {
	switch kind, _ := w.Do(key, "TYPE").ToString(); kind {
	case "zset":
		ended := fmt.Sprintf("(%d", time.Now().UnixMicro())
		if strings.HasSuffix(key, "queue") {
			ended = "-inf"
		}
		n, _ := w.Do(key, "ZCOUNT", ended, "+inf").AsInt64()
		return n > 0
	case "hash", "list":
		return true // in layouts of others
	case "string":
		const kind, mode = 3, 61 // '-' if there is no hold
		value, _ := w.Do(key, "GET").ToString()
		return !strings.HasPrefix(value, "sb1") || len(value) > mode && value[kind] != '-' && value[mode] != '-'
	}
	return false
}

// LeavesNothing requires that a name has no holder, no waiter, and no key that never ends.
func (w *World) LeavesNothing(p *Process, name string) {
	w.Helper()
	held, immortal := w.Keys(p, name)
	require.Empty(w, held, "these keys are held, or have waiters")
	require.Empty(w, immortal, "these keys never end")
}

// Forget deletes the keys of a name, as an eviction or a failover does.
func (w *World) Forget(p *Process, name string) {
	w.Helper()
	keys := w.keysOf(p, name)
	for _, key := range append(keys.Holds, keys.Queues...) {
		require.NoError(w, w.Do(key, "DEL").Error())
	}
}

// Do runs a command for a key, beside all processes.
func (w *World) Do(key, command string, args ...string) rueidis.RedisResult {
	return w.admin.Do(w.Context(), w.admin.B().Arbitrary(command).Keys(key).Args(args...).Build())
}
