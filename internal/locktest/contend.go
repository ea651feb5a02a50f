// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"strings"
	"testing"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// Contend runs Lock of a reentrant lock on another goroutine, and returns when its session waits at
// the server for the lock, which another session holds.
func Contend[T any](
	ctx context.Context, tb testing.TB, server *redistest.Server, name string,
	lock func(ctx context.Context) (T, error),
) <-chan Result[T] {
	tb.Helper()
	returned := LaterWith(ctx, lock)
	redistest.Await(tb, "a waiter's mark and its subscription", func() bool {
		value, _ := server.MustDo(tb, "GET", Key(name)).(string)
		marked := strings.HasPrefix(value, "sb1r") && value[61:83] != strings.Repeat("-", 22)
		return marked && Listeners(tb, server, Keys(name).Unlocked) > 0
	})
	return returned
}
