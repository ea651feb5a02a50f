// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/shards"
)

// controller works on the tenants of one process.
type controller struct {
	member *shards.Member

	mu    sync.Mutex          // held while one tenant is worked on
	owned map[string]struct{} // the names of tenants
}

func newController(member *shards.Member) *controller {
	return &controller{member: member, owned: make(map[string]struct{})}
}

// run works until ctx ends, and returns when all tenants are released.
func (c *controller) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.work(ctx) })
	running.Go(func() {
		<-ctx.Done()
		_ = c.member.Leave(context.WithoutCancel(ctx))
	})
	for change := range c.member.Changes() {
		c.apply(change)
	}
	running.Wait()
}

// apply begins or ends the work on a tenant. It never ends while the tenant is worked on, because of the mutex.
func (c *controller) apply(change shards.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch change.Kind {
	case shards.Granted:
		c.owned[change.Shard.Name()] = struct{}{}
	case shards.Wanted, shards.Lost:
		delete(c.owned, change.Shard.Name())
		_ = change.Shard.Release() // the next owner may begin; an error says that the lease was lost
	}
}

// work reconciles all tenants once a second.
func (c *controller) work(ctx context.Context) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		c.mu.Lock()
		names := slices.Collect(maps.Keys(c.owned))
		c.mu.Unlock()
		for _, name := range names {
			c.workOn(ctx, name)
		}
	}
}

// workOn reconciles one tenant, if this process may still do so.
func (c *controller) workOn(ctx context.Context, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shard, owns := c.member.Own(name); owns {
		reconcile(shard.Bind(ctx), name, shard.Token())
	}
}

// reconcile stands for the work. A store that gets the token refuses a process that is late.
func reconcile(context.Context, string, uint64) {}
