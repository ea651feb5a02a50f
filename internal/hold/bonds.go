// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"sync"
)

// Bonds are the contexts that end with a root of their own, such as that of a term or of the ownership of a shard: one for all parents
// with the same Done. So whoever binds a context for each piece of work keeps nothing for those that are no longer used. The zero Bonds
// is ready for use.
type Bonds struct {
	mu  sync.Mutex // under which no context is called but bonds
	all map[<-chan struct{}]*bond
}

// Bind returns a child of parent that also ends with root, for its cause. Its Err calls err before it returns, which compares the clock
// and returns why root is over.
func (b *Bonds) Bind(parent, root context.Context, err func() error) context.Context {
	if cause := err(); cause != nil {
		return &rootedContext{bonded{parent, newBond(parent).ended(cause)}, err}
	}
	done := parent.Done()
	b.mu.Lock()
	found := b.all[done]
	b.mu.Unlock()
	if found == nil || isClosed(done) { // if the parent has ended, it may not have come to end this one yet
		found = b.add(root, newBond(parent))
	}
	return &rootedContext{bonded{parent, found}, err}
}

// add returns the bond of those parents: fresh, unless there is one.
func (b *Bonds) add(root context.Context, fresh *bond) *bond {
	if fresh.Err() != nil {
		return fresh
	}
	b.mu.Lock()
	if other := b.all[fresh.parent]; other != nil && other.Err() == nil {
		b.mu.Unlock()
		fresh.cancel(nil) // another goroutine was first
		return other
	}
	if b.all == nil {
		b.all = make(map[<-chan struct{}]*bond)
	}
	b.all[fresh.parent] = fresh
	b.mu.Unlock()
	// No goroutine: the root calls back when it ends. If the parent ends first, the root forgets the bond.
	forget := context.AfterFunc(root, func() { fresh.cancel(context.Cause(root)) })
	context.AfterFunc(fresh, func() { //nolint:contextcheck // it ends with its parent, or with root
		forget()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.all[fresh.parent] == fresh {
			delete(b.all, fresh.parent)
		}
	})
	return fresh
}

// rootedContext is a context that ends with a root. Its Err compares the clock.
type rootedContext struct {
	bonded

	err func() error
}

// Err implements context.Context.
func (c *rootedContext) Err() error {
	if c.bond.Err() == nil {
		if err := c.err(); err != nil {
			c.bond.cancel(err)
		}
	}
	return c.bond.Err()
}
