// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// queue calls Lock on another goroutine, and returns when that has the n-th ticket in the queue of the name.
func queue(
	ctx context.Context, tb testing.TB, server *redistest.Server, mu *fair.Lock, name string, n int,
) <-chan locktest.Result[signalbox.Lease] {
	tb.Helper()
	returned := locktest.LaterWith(ctx, mu.Lock)
	redistest.Await(tb, "a ticket", func() bool { return inLine(tb, server, name) == n })
	return returned
}

// inLine returns how many tickets the queue of a name has.
func inLine(tb testing.TB, server *redistest.Server, name string) int {
	tb.Helper()
	return locktest.Count(tb, server, "ZCARD", locktest.Keys(name).Line())
}
