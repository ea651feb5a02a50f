// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// ttl returns how long a key lives, in milliseconds: -1 without an end, and -2 if it is missing.
func (f *fixture) ttl(key string) int64 {
	f.Helper()
	if !f.isTimed {
		ms, _ := f.server.MustDo(f, "PTTL", key).(int64)
		return ms
	}
	ends := redistest.EndOf(f, f.server, key)
	if ends < 0 {
		return ends
	}
	return max(ends-redistest.LaterMS-f.clock/1000, 0)
}

// expires sets the life of a key.
func (f *fixture) expires(key string, life time.Duration) {
	f.Helper()
	if !f.isTimed {
		f.server.MustDo(f, "PEXPIRE", key, life.Milliseconds())
		return
	}
	f.server.MustDo(f, "PEXPIREAT", key, redistest.LaterMS+f.clock/1000+life.Milliseconds())
}
