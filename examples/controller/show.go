// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/shards"
)

// sizeVariable sets another number of tenants.
const sizeVariable = "SIGNALBOX_EXAMPLE_TENANTS"

// size returns how many tenants there are at first. The embedded server takes milliseconds for each command on a large
// sorted set.
func size() int {
	n, err := strconv.Atoi(os.Getenv(sizeVariable))
	switch {
	case err == nil:
		return n
	case os.Getenv(demo.ServerVariable) == "":
		return 200
	default:
		return 5_000
	}
}

func nameOf(i int) string { return fmt.Sprintf("tenant-%04d", i) }

// show changes the tenants of three processes, and ends the process that works on one tenant.
func show(ctx context.Context, url string) error {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	group := shards.New(session, "tenants", shards.Names())
	running := make(map[string]*demo.Process)
	for _, address := range []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"} {
		if running[address], err = demo.Start(ctx, url, address); err != nil {
			return err
		}
	}
	var requests router
	err = requests.watch(ctx, group, func(view *shards.View) bool { return len(view.Members) < len(running) })
	if err != nil {
		return err
	}
	n := size()
	if err := requests.change(ctx, group, 0, n); err != nil {
		return err
	}
	if err := requests.change(ctx, group, n/10, n+n/20); err != nil { // some go, and others come
		return err
	}
	return requests.follow(ctx, group, nameOf(n/2), running)
}

// follow ends the process that works on a tenant, and finds the next one.
func (r *router) follow(ctx context.Context, group *shards.Group, name string, running map[string]*demo.Process) error {
	before, err := group.Owner(ctx, name)
	if err != nil {
		return err
	}
	address := r.address(name)
	fmt.Printf("requests of %s go to %s, and it gets SIGTERM\n", name, address)
	if err := terminate(running[address]); err != nil {
		return err
	}
	delete(running, address)
	if err := r.awaitEven(ctx, group, r.view.Load().Count, len(running)); err != nil {
		return err
	}
	after, err := group.Owner(ctx, name)
	if err != nil {
		return err
	}
	fmt.Printf("requests of %s go to %s, with a greater token: %t\n", name, r.address(name), after.Token > before.Token)
	for _, process := range running {
		if err := terminate(process); err != nil {
			return err
		}
	}
	return nil
}

// change makes the tenants those from first to last, and waits until they have processes.
func (r *router) change(ctx context.Context, group *shards.Group, first, last int) error {
	var names []string
	for i := first; i < last; i++ {
		names = append(names, nameOf(i))
	}
	if err := group.Sync(ctx, names); err != nil {
		return err
	}
	return r.awaitEven(ctx, group, len(names), 3)
}

// awaitEven waits until so many tenants have owners, which have as many as each other.
func (r *router) awaitEven(ctx context.Context, group *shards.Group, total, processes int) error {
	return r.watch(ctx, group, func(view *shards.View) bool {
		if view.Count != total || len(view.Members) != processes || view.Unowned+view.Draining > 0 {
			return true
		}
		var owned []int
		for _, member := range view.Members {
			owned = append(owned, member.Owned)
		}
		slices.Sort(owned)
		if owned[processes-1]-owned[0] > 1 {
			return true
		}
		fmt.Printf("%d tenants: %d processes work on %v\n", total, processes, owned)
		return false
	})
}

// terminate ends a process kindly.
func terminate(p *demo.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, err := p.Wait()
	return err
}
