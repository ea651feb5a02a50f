// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// P1, P2, P6: each key of a name is deleted in each state. Without the key of the hold the next session has the lock within two
// polls, and the holder learns it from a renewal. Without another key nothing is lost: the holder keeps the lock, and the
// next session has it within two polls of the release. Then the name serves as before.
func TestEachKeyOfANameMayBeDeleted(t *testing.T) {
	t.Parallel()
	const polls, renewal = 3 * time.Second, 11 * time.Second
	states := []string{"Held", "WaitedFor", "HandedOff", "Free"}
	for name, take := range takings() {
		for _, state := range states {
			if name == locktest.Reader().Name && state == "HandedOff" {
				continue // readers that wait go before the next writer
			}
			t.Run(name+state, func(t *testing.T) {
				t.Parallel()
				for n, more := 0, true; more; n++ {
					bubble(t, func(f *fixture) {
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						var sessions []*signalbox.Session
						for range 3 {
							s, _, end := f.session(f.T)
							defer end()
							sessions = append(sessions, s)
						}
						later := func(s *signalbox.Session) <-chan locktest.Result[func() error] {
							waiting := locktest.LaterWith(ctx, func(ctx context.Context) (func() error, error) { return take(ctx, s) })
							time.Sleep(100 * time.Millisecond)
							return waiting
						}
						had := take
						if name == locktest.Reader().Name {
							had = takings()[locktest.Writer().Name] // readers share
						}
						release, err := had(ctx, sessions[0])
						require.NoError(f, err)
						time.Sleep(5 * time.Second)
						var waiting <-chan locktest.Result[func() error]
						switch state {
						case "WaitedFor":
							waiting = later(sessions[1])
						case "HandedOff":
							next := locktest.LaterWith(ctx, func(ctx context.Context) (func() error, error) { return had(ctx, sessions[2]) })
							time.Sleep(100 * time.Millisecond)
							waiting = later(sessions[1])
							require.NoError(f, release())
							release = locktest.MustHave(f, next)
						case "Free":
							require.NoError(f, release())
						}

						keys := f.redis.Keys()
						slices.Sort(keys)
						if more = n+1 < len(keys); n >= len(keys) {
							return
						}
						deleted := keys[n]
						f.redis.Del(deleted)
						if waiting == nil {
							waiting = later(sessions[1])
						}
						what := fmt.Sprint("without ", deleted)
						isHold := strings.HasSuffix(deleted, "}:lock") || strings.HasSuffix(deleted, "}:permits")
						switch {
						case state == "Free":
						case isHold:
							time.Sleep(polls)
							synctest.Wait()
							if name != "Multilock" { // it has the other member still
								require.Len(f, waiting, 1, what)
							}
							time.Sleep(renewal)
							_ = release()
						default:
							time.Sleep(renewal)
							require.Empty(f, waiting, what)
							require.NoError(f, release(), what)
						}
						time.Sleep(polls)
						synctest.Wait()
						require.Len(f, waiting, 1, what)
						releaseNext := locktest.MustHave(f, waiting)
						require.NoError(f, releaseNext(), what)
						again, err := take(ctx, sessions[0])
						require.NoError(f, err, what)
						require.NoError(f, again(), what)
						cancel()
					})
				}
			})
		}
	}
}
