// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

type depthKey int

// deeper returns ctx with values around it, as requests add them.
func deeper(ctx context.Context, depth int) context.Context {
	for i := range depth {
		ctx = context.WithValue(ctx, depthKey(i), i)
	}
	return ctx
}

// P7: entering again makes no round trip and allocates nothing, ten contexts deep. A writer may also read.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	alone(t, enterable, func(f *kindFixture) {
		session := f.session(signalbox.WithPolling())
		mu := f.in(session, signalbox.WithRenewedLease(longest))
		for _, outer := range []locktest.Primitive{f.Primitive, f.excludedBy()} {
			lease := f.must(lockOf(outer, session, f.name, signalbox.WithRenewedLease(longest)))
			ctx := deeper(lease.Enter(f.Context()), 10)
			for n, enter := range takers {
				var allocated float64
				require.Empty(f, f.server.SentBy(func() {
					allocated = testing.AllocsPerRun(100, func() {
						again, err := enter(mu, ctx)
						if err != nil || again.Token() != lease.Token() || again.Err() != nil {
							f.Error("not entered again", n, err)
						}
						if err := again.Unlock(); err != nil {
							f.Error(err)
						}
					})
				}))
				require.Zero(f, allocated, n)
			}
			require.NoError(f, lease.Unlock())
		}
	})
}
