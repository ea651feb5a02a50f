// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
)

// carriedKey asks a context for the leases it carries.
type carriedKey struct{}

// bonded is a child of the context inside that also ends with a bond. It is never registered anywhere
// itself: the bond is.
//
// Its Done and Value lead to the bond, so that package context attaches children to the bond
// directly and starts no goroutine for them.
type bonded struct {
	context.Context //nolint:containedctx // a context that wraps one

	bond *bond
}

// Done implements context.Context.
func (c *bonded) Done() <-chan struct{} { return c.bond.Done() }

// Value implements context.Context.
func (c *bonded) Value(key any) any {
	if key == cancelKey {
		return c.bond.Value(key)
	}
	return c.Context.Value(key)
}

// boundContext is a context that ends with a lease. Its Err compares the clock.
type boundContext struct {
	bonded

	lease Lease
}

// Err compares the clock before it returns. If that shows that the lease is over, Err ends the
// lease and this context.
func (c *boundContext) Err() error {
	if err := c.bond.Err(); err != nil {
		return err
	}
	if err := c.lease.Err(); err != nil {
		// The goroutine that ended the lease cancels the bond next; the caller need not wait for
		// it.
		c.bond.cancel(err)
	}
	return c.bond.Err()
}

// cancelKey is the key by which package context finds the context to attach children to, and the
// cause of its end. If it did not find the bond, each child would cost a goroutine, and have no
// cause.
//
//nolint:gochecknoglobals // a constant that only package context knows
var cancelKey = func() any {
	s := &spy{Context: context.Background()}
	_ = context.Cause(s)
	return s.key
}()

// spy is a context that has ended, and remembers the last key passed to Value.
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

// enteredContext is a boundContext that carries its lease, before the leases of its parent.
type enteredContext struct {
	boundContext

	outer *enteredContext
}

// Value implements context.Context.
func (c *enteredContext) Value(key any) any {
	if _, isKey := key.(carriedKey); isKey {
		return c
	}
	return c.boundContext.Value(key)
}

// withoutLeasesContext hides the leases that a context carries.
type withoutLeasesContext struct{ context.Context } //nolint:containedctx // a context that wraps one

// Value implements context.Context.
func (c withoutLeasesContext) Value(key any) any {
	if _, isKey := key.(carriedKey); isKey {
		return (*enteredContext)(nil)
	}
	return c.Context.Value(key)
}

func closedChannel() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

// isClosed reports whether done is closed. A nil channel never is.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
