// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/reentrant"
)

// P10: a server that refuses a PING, or to end a subscription, ends no program: after a failed save, while a script runs for
// long, or as a replica that has lost its primary. The client panics at such a reply to what it sends behind UNSUBSCRIBE.
func TestARefusedPingEndsNoProgram(t *testing.T) {
	t.Parallel()
	for words, refuses := range map[string]map[string]bool{
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": {"PING": true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                 {"PING": true},
		"BUSY Redis is busy running a script.":                                                             {"PING": true, "UNSUBSCRIBE": true},
		"ERR unknown command 'PING'":                                                                       {"PING": true},
	} {
		t.Run(words[:8], func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				t := f.T
				s, _, closeSession := f.session(t)
				defer closeSession()
				other, _, closeOther := f.session(t)
				defer closeOther()
				_, err := reentrant.New(s, "kept").Lock(t.Context())
				require.NoError(t, err)
				held, err := reentrant.New(other, "a").Lock(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err = reentrant.New(s, "a").Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
					if refuses[command] {
						c.WriteError(words)
					}
					return refuses[command]
				})
				time.Sleep(time.Minute) // the channel that s waited on has ended, and the connection that had it
				f.redis.Server().SetPreHook(func(*server.Peer, string, ...string) bool { return false })
				time.AfterFunc(5*time.Second, func() { _ = held.Unlock() })
				began := time.Now()
				_, err = reentrant.New(s, "a").Lock(t.Context())
				require.NoError(t, err)
				require.Equal(t, 5*time.Second, time.Since(began), "messages arrive")
			})
		})
	}
}
