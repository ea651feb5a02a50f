// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"fmt"
	"testing"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Enqueue runs Lock of a lock on another goroutine, and returns when its session has a further ticket in the lock's queue,
// and listens to its grants.
func Enqueue[T any](
	ctx context.Context, tb testing.TB, server *redistest.Server, name string,
	lock func(ctx context.Context) (T, error),
) <-chan Result[T] {
	tb.Helper()
	before := Tickets(tb, server, name)
	returned := LaterWith(ctx, lock)
	redistest.Await(tb, "a ticket, and its session listens", func() bool {
		last, _ := server.MustDo(tb, "ZRANGE", Keys(name).QueueKey(), -1, -1).([]any)
		return Tickets(tb, server, name) > before && len(last) == 1 &&
			Listeners(tb, server, proto.Grants(proto.DefaultPrefix)+fmt.Sprint(last[0])[:proto.SessionSize]) > 0
	})
	return returned
}

// Tickets returns how many tickets the queue of a lock has.
func Tickets(tb testing.TB, server *redistest.Server, name string) int {
	tb.Helper()
	return Count(tb, server, "ZCARD", Keys(name).QueueKey())
}
