// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/once"
)

func newOnce(c *callFixture) *once.Once { return once.New(c.session(), "a") }

// stored makes a call of a key that has an outcome.
func stored(do func(ctx context.Context, o *once.Once) error) prepareCall {
	return func(c *callFixture) preparedCall {
		c.must(doOnce(context.Background(), once.New(c.other[0], "a"), "x", 0).err)
		return func(ctx context.Context) error { return do(ctx, newOnce(c)) }
	}
}

// doUnderFault calls Do, and causes the fault while its function runs.
func doUnderFault(ctx context.Context, o *once.Once, cause func()) error {
	_, _, err := o.Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
		cause()
		return []byte("x"), nil
	})
	return err
}

func get(ctx context.Context, o *once.Once) error {
	_, _, err := o.Get(ctx)
	return err
}

func forget(ctx context.Context, o *once.Once) error { return o.Forget(ctx) }

// onces returns the calls of a once.
func onces() []testedCall {
	return []testedCall{
		{name: "once.Once.Do", class: waits, holds: heldBy(newFair), ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return doUnderFault(ctx, newOnce(c), func() {}) }
		}},
		{name: "once.Once.TryDo", class: tries, holds: heldBy(newFair), ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				_, _, err := newOnce(c).TryDo(ctx, func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
				return err
			}
		}},
		{name: "once.Once.Holder", class: requests, holds: heldBy(newFair), free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				_, err := newOnce(c).Holder(ctx)
				return err
			}
		}},
		{name: "once.Once.Do while fn runs", class: stores, inside: true, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return doUnderFault(ctx, newOnce(c), c.causeFault) }
		}},
		{name: "once.Once.Do of a stored outcome", class: insists, ready: stored(func(ctx context.Context, o *once.Once) error {
			return doUnderFault(ctx, o, func() {})
		})},
		{name: "once.Once.Get", class: insists, ready: stored(get)},
		{name: "once.Once.Forget", class: insists, ready: stored(forget)},
	}
}
