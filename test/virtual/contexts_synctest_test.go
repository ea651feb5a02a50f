// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ownContext is a context that another package made: it ends with an error that package context does not know, and has a
// deadline that says nothing.
type ownContext struct {
	context.Context

	done  chan struct{}
	ended atomic.Bool
}

var errOwn = errors.New("an error of its own")

func (c *ownContext) Done() <-chan struct{} { return c.done }

func (c *ownContext) Err() error {
	if c.ended.Load() {
		return errOwn
	}
	return nil
}

func (*ownContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Hour), true }

func ownLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	c := &ownContext{Context: ctx, done: make(chan struct{})}
	timer := time.AfterFunc(soon, func() {
		c.ended.Store(true)
		close(c.done)
	})
	return c, func() { timer.Stop() }
}

// P10: a call ends when its caller's context ends, and not before, whatever the context says of its deadline. The error of a
// wait is that of the context, also if package context does not know it.
func TestEveryCallHeedsAContextOfAnotherPackage(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		if c.class == unlocks || c.class == inner || c.class == guesses || c.class == leaves {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range endings {
				if r.class != c.class || !c.connects(r.fault) || r.fault != held && r.fault != frozen {
					continue
				}
				is, within := c.read(t, r.ends, "own")
				ended, took := c.play(t, r.fault, ownLimit)
				require.Equal(t, is, ended, r.fault)
				require.LessOrEqual(t, took, within+slack, r.fault)
			}
		})
	}
}
