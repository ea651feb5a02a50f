// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

func locksElsewhere(e *callFixture) {
	_, err := reentrant.New(e.other[0], "a").Lock(context.Background())
	e.must(err)
}

// inspections returns the calls of package inspect.
func inspections() []testedCall {
	var seen sync.Map // the entry that was seen, by its scene
	return []testedCall{
		{name: "inspect.Name", class: requests, holds: locksElsewhere, ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(inspect.Name(ctx, e.session(), "a")) }
		}},
		{name: "inspect.Break", class: requests, holds: locksElsewhere, free: "ErrNotHeld", ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error { return inspect.Break(ctx, e.session(), "a") }
		}},
		{name: "inspect.BreakSeen", class: requests, free: "ErrNotHeld", holds: func(e *callFixture) {
			locksElsewhere(e)
			entries, err := inspect.Name(context.Background(), e.other[0], "a")
			e.must(err)
			seen.Store(e, entries[0])
		}, ready: func(e *callFixture) preparedCall {
			return func(ctx context.Context) error {
				entry, held := seen.Load(e)
				if !held {
					entry = inspect.Entry{Name: "a", Kind: inspect.Reentrant}
				}
				return inspect.BreakSeen(ctx, e.session(), entry.(inspect.Entry))
			}
		}},
	}
}
