// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

func locksElsewhere(c *callFixture) {
	_, err := reentrant.New(c.other[0], "a").Lock(context.Background())
	c.must(err)
}

// inspections returns the calls of package inspect.
func inspections() []testedCall {
	var seen sync.Map // the entry that was seen, by its scene
	return []testedCall{
		{name: "inspect.Name", class: requests, holds: locksElsewhere, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(inspect.Name(ctx, c.session(), "a")) }
		}},
		{name: "inspect.Break", class: requests, holds: locksElsewhere, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return inspect.Break(ctx, c.session(), "a") }
		}},
		{name: "inspect.BreakSeen", class: requests, free: "ErrNotHeld", holds: func(c *callFixture) {
			locksElsewhere(c)
			entries, err := inspect.Name(context.Background(), c.other[0], "a")
			c.must(err)
			seen.Store(c, entries[0])
		}, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				entry, held := seen.Load(c)
				if !held {
					entry = inspect.Entry{Name: "a", Kind: inspect.Reentrant}
				}
				return inspect.BreakSeen(ctx, c.session(), entry.(inspect.Entry))
			}
		}},
	}
}
