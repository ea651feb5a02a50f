// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

func locksElsewhere(e *scene) {
	_, err := reentrant.New(e.other[0], "a").Lock(context.Background())
	e.must(err)
}

// inspections returns the calls of package inspect.
func inspections() []call {
	return []call{
		{name: "inspect.Name", class: asks, hold: locksElsewhere, ready: func(e *scene) made {
			return func(ctx context.Context) error { return no(inspect.Name(ctx, e.session(), "a")) }
		}},
		{name: "inspect.Break", class: asks, hold: locksElsewhere, free: "ErrNotHeld", ready: func(e *scene) made {
			return func(ctx context.Context) error { return inspect.Break(ctx, e.session(), "a") }
		}},
	}
}
