// SPDX-License-Identifier: Apache-2.0

package dialtest

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// Name is the name of the lock that Use acquires.
const Name = "vault"

// Use makes calls of a session for a while, and closes it: goroutines acquire a lock and wait for it. What becomes of the calls does not
// matter.
func Use(s *signalbox.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if lease, err := fair.New(s, Name).Lock(ctx); err == nil {
					_ = lease.Unlock()
				}
			}
		})
	}
	callers.Wait()
	_ = s.Close(ctx)
}
