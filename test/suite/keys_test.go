// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// keysOf returns the keys of a name.
func (w *World) keysOf(p *Process, name string) testkit.Keys {
	w.Helper()
	keys, err := testkit.KeysOf(p.Sessions[0], p.prefix+name, p.options...)
	require.NoError(w, err)
	if p.kind.HoldKey != "" {
		key := "{" + p.prefix + name + "}"
		if strings.Contains(name, "{") {
			key = p.prefix + name
		}
		keys.Holds, keys.Queues = []string{key + ":" + p.kind.HoldKey}, nil
	}
	return keys
}

// Keys returns the keys of a name that have a holder or a waiter, and those that never end.
func (w *World) Keys(p *Process, name string) (held, immortal []string) {
	w.Helper()
	if lock, hasNoHold := p.Lock(name).(interface {
		isHeld(ctx context.Context) bool
	}); hasNoHold && lock.isHeld(w.Context()) {
		held = append(held, name)
	}
	keys := w.keysOf(p, name)
	for i, some := range [][]string{keys.Holds, keys.Queues, keys.Stored} {
		for _, key := range some {
			for _, server := range w.admins {
				isQueue := i == 1 && strings.HasSuffix(key, "queue")
				if (i == 0 || isQueue) && p.isHeld(w, server, key) {
					held = append(held, key)
				}
			}
		}
	}
	listed := slices.Concat(keys.Holds, keys.Queues, keys.Stored)
	for _, server := range w.admins {
		for _, key := range w.immortal(server, p.prefix+name) {
			// Redisson keeps the count of a semaphore for ever. No key of the library's own is so.
			if p.kind.In == nil || slices.Contains(listed, key) {
				immortal = append(immortal, key)
			}
		}
	}
	return held, immortal
}

// immortal returns the keys of a server that have the name in them and never end, whether keysOf knows them or not.
func (w *World) immortal(server rueidis.Client, name string) (keys []string) {
	for _, node := range server.Nodes() {
		all, err := node.Do(w.Context(), node.B().Keys().Pattern("*").Build()).AsStrSlice()
		require.NoError(w, err)
		for _, key := range all {
			if !strings.Contains(key, name) {
				continue
			}
			left, err := w.Do(server, key, "PTTL").AsInt64()
			require.NoError(w, err)
			const never = -1
			if left == never {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// isHeld reports whether a key of holders or waiters has some.
func (p *Process) isHeld(w *World, server rueidis.Client, key string) bool {
	switch kind, _ := w.Do(server, key, "TYPE").ToString(); kind {
	case "zset":
		ended := fmt.Sprintf("(%d", time.Now().UnixMicro())
		if p.kind.In != nil {
			ended = fmt.Sprintf("(%d", time.Now().UnixMilli())
		}
		if strings.HasSuffix(key, "queue") {
			ended = "-inf"
		}
		n, _ := w.Do(server, key, "ZCOUNT", ended, "+inf").AsInt64()
		return n > 0
	case "hash", "list":
		return true // in layouts of others
	case "string":
		const kind, mode = 3, 61 // '-' if there is no hold
		value, _ := w.Do(server, key, "GET").ToString()
		isRedlock := strings.HasPrefix(value, "sb1q")
		return isRedlock || !strings.HasPrefix(value, "sb1") || len(value) > mode && value[kind] != '-' && value[mode] != '-'
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

// Forget deletes the keys of a name on all servers, as an eviction or a failover does.
func (w *World) Forget(p *Process, name string) {
	w.Helper()
	keys := w.keysOf(p, name)
	for _, key := range slices.Concat([]string{p.prefix + name}, keys.Holds, keys.Queues, keys.Stored) {
		for _, server := range w.admins {
			require.NoError(w, w.Do(server, key, "DEL").Error())
		}
	}
}

// Do runs a command for a key on a server, beside all processes.
func (w *World) Do(server rueidis.Client, key, command string, args ...string) rueidis.RedisResult {
	return server.Do(w.Context(), server.B().Arbitrary(command).Keys(key).Args(args...).Build())
}
