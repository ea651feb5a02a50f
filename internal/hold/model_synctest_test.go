// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// contextPair is a context that is bound to leases, or a child of one, and the same made by package context alone.
type contextPair struct{ bound, plain context.Context }

// contextTree is a tree of pairs, and how to end parts of it.
type contextTree struct {
	*rand.Rand

	pairs  []contextPair
	leases []Lease
	ends   []context.CancelCauseFunc // by lease: ends what is bound to it, in the plain tree
	cancel []func(cause error)
}

// grow adds a child of one of the pairs.
func (ct *contextTree) grow(n int) {
	p := ct.pairs[ct.IntN(len(ct.pairs))]
	why := fmt.Errorf("cause %d", n)
	var c contextPair
	var stop [2]context.CancelFunc
	switch in := time.Duration(ct.Int64N(int64(20 * time.Second))); ct.IntN(7) {
	case 0:
		c = contextPair{context.WithValue(p.bound, contextKey{}, n), context.WithValue(p.plain, contextKey{}, n)}
	case 1:
		var end [2]context.CancelCauseFunc
		c.bound, end[0] = context.WithCancelCause(p.bound)
		c.plain, end[1] = context.WithCancelCause(p.plain)
		ct.cancel = append(ct.cancel, func(cause error) { end[0](cause); end[1](cause) })
	case 2:
		c.bound, stop[0] = context.WithTimeoutCause(p.bound, in, why)
		c.plain, stop[1] = context.WithTimeoutCause(p.plain, in, why)
		ct.cancel = append(ct.cancel, func(error) { stop[0](); stop[1]() })
	case 3:
		c = contextPair{context.WithoutCancel(p.bound), context.WithoutCancel(p.plain)}
	default:
		i := ct.IntN(len(ct.leases))
		bind := []func(Lease, context.Context) context.Context{Lease.Bind, Lease.Enter}[ct.IntN(2)]
		c.bound = bind(ct.leases[i], p.bound)
		var end context.CancelCauseFunc
		c.plain, end = context.WithCancelCause(p.plain)
		before := ct.ends[i]
		ct.ends[i] = func(cause error) { before(cause); end(cause) }
		if err := ct.leases[i].Err(); err != nil {
			end(err)
		}
	}
	ct.pairs = append(ct.pairs, c)
}

// end ends a lease, or a context that can be.
func (ct *contextTree) end(n int) {
	switch i := ct.IntN(len(ct.leases)); {
	case ct.IntN(2) == 0 && len(ct.cancel) > 0:
		ct.cancel[ct.IntN(len(ct.cancel))](fmt.Errorf("end %d", n))
	case ct.IntN(2) == 0:
		_ = ct.leases[i].Unlock()
		ct.ends[i](errs.ErrReleased)
	default:
		ct.leases[i].hold.Term.Break(errs.ErrMaxHold, false)
		for both := range 2 { // the leases of one hold are independent
			ct.ends[i^both](ct.leases[i^both].Err())
		}
	}
}

// same compares the contexts of each pair.
func (ct *contextTree) same(t *testing.T) {
	t.Helper()
	for i, c := range ct.pairs {
		require.Equal(t, c.plain.Err(), c.bound.Err(), i)
		require.Equal(t, context.Cause(c.plain), context.Cause(c.bound), i)
		require.Equal(t, c.plain.Value(contextKey{}), c.bound.Value(contextKey{}), i)
		require.Equal(t, c.plain.Done() == nil, c.bound.Done() == nil, i)
		require.Equal(t, isClosed(c.plain.Done()), isClosed(c.bound.Done()), i)
		want, is := c.plain.Deadline()
		deadline, has := c.bound.Deadline()
		require.Equal(t, is, has, i)
		require.Equal(t, want, deadline, i)
	}
}

// A bound context behaves like one of package context that its lease cancels, whatever surrounds it, and
// whatever ends.
func TestBoundContextIsLikeOneOfPackageContext(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			tree := &contextTree{Rand: rand.New(rand.NewPCG(seed, 0)), pairs: []contextPair{{context.Background(), context.Background()}}}
			var holds []*fixture
			for range 3 {
				b, l := begin(t, "key")
				holds = append(holds, b)
				tree.leases = append(tree.leases, l, again(t, l))
				tree.ends = append(tree.ends, func(error) {}, func(error) {})
			}
			for n := range 60 {
				tree.grow(n)
				if n%5 == 4 {
					tree.end(n)
				}
				time.Sleep(time.Duration(tree.Int64N(int64(400 * time.Millisecond))))
				synctest.Wait()
				tree.same(t)
			}
			for _, end := range tree.cancel {
				end(nil)
			}
			for i, l := range tree.leases {
				_ = l.Unlock()
				tree.ends[i](errs.ErrReleased)
			}
			synctest.Wait()
			tree.same(t)
			for _, b := range holds {
				require.Zero(t, b.watchers())
			}
		})
	}
}
