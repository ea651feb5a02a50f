// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
)

// carriedKey asks a context for the leases it carries.
type carriedKey struct{}

// boundContext is a context that std knows how to cancel, with an Err that looks at the clock.
//
// It hands out the Done of the cancellable context inside, and Value reaches that one, so that
// std hangs children onto it directly and starts no goroutine for them.
type boundContext struct {
	context.Context //nolint:containedctx // a context that wraps one

	lease  Lease
	cancel context.CancelCauseFunc
}

// Err compares the clock before it answers: where the lease turns out to be over, looking
// ends it, and with it this context.
func (c *boundContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if err := c.lease.Err(); err != nil {
		// Whoever ended the lease cancels this context next; the caller need not wait for that.
		c.cancel(err)
	}
	return c.Context.Err()
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
