// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
)

// carriedKey asks a context for the leases it carries.
type carriedKey struct{}

// boundContext is a child of the context inside that ends with a bond as well. Its Err looks at the
// clock. It is never registered anywhere itself: the bond is.
//
// It hands out the Done of the bond, and Value reaches that one, so that std hangs children onto it
// directly and starts no goroutine for them.
type boundContext struct {
	context.Context //nolint:containedctx // a context that wraps one

	lease Lease
	bond  *bond
}

// Done implements context.Context.
func (c *boundContext) Done() <-chan struct{} { return c.bond.Done() }

// Err compares the clock before it returns: if the lease turns out to be over, looking ends it, and
// with it this context.
func (c *boundContext) Err() error {
	if err := c.bond.Err(); err != nil {
		return err
	}
	if err := c.lease.Err(); err != nil {
		// Whoever ended the lease cancels the bond next; the caller need not wait for that.
		c.bond.cancel(err)
	}
	return c.bond.Err()
}

// Value implements context.Context.
func (c *boundContext) Value(key any) any {
	if key == cancelKey {
		return c.bond.Value(key)
	}
	return c.Context.Value(key)
}

// cancelKey is what package context asks a context for to find the one to hang children onto, and the
// cause of its end. If it asked otherwise, children would cost a goroutine each, and have no cause.
//
//nolint:gochecknoglobals // a constant that only package context knows
var cancelKey = func() any {
	s := &spy{Context: context.Background()}
	_ = context.Cause(s)
	return s.key
}()

// spy is a context that has ended, and remembers what it was asked for.
type spy struct {
	context.Context //nolint:containedctx // a context that wraps one

	key any
}

// Err implements context.Context.
func (*spy) Err() error { return context.Canceled }

// Value implements context.Context.
func (s *spy) Value(key any) any {
	s.key = key
	return nil
}

// enteredContext is a boundContext that carries its lease, before those of its parent.
type enteredContext struct {
	boundContext

	outer *enteredContext
}

// Value implements context.Context.
func (c *enteredContext) Value(key any) any {
	if _, asked := key.(carriedKey); asked {
		return c
	}
	return c.boundContext.Value(key)
}

// strangerContext hides the leases that a context carries.
type strangerContext struct{ context.Context } //nolint:containedctx // a context that wraps one

// Value implements context.Context.
func (c strangerContext) Value(key any) any {
	if _, asked := key.(carriedKey); asked {
		return (*enteredContext)(nil)
	}
	return c.Context.Value(key)
}

// closedChannel answers a channel that is closed.
func closedChannel() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}
