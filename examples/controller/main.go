// SPDX-License-Identifier: Apache-2.0

// Command controller is a controller of 5,000 tenants, in three processes; of 200 on the embedded server, which is slow.
// Each tenant has one process that works on it. A process has one loop for all of its tenants, and no goroutine for
// each. Tenants come and go, and a router knows to which process a request of a tenant goes.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/shards"
)

func main() { demo.Processes(show, serve) }

// serve is one process of the controller. It runs until it gets SIGTERM.
func serve(ctx context.Context, url, address string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(address))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))

	member, err := shards.New(session, "tenants", shards.Names(), shards.Value(address)).Join(ctx)
	if err != nil {
		return err
	}
	newController(member).run(ctx)
	return nil
}

// router knows which process works on a tenant. Requests may use it from any goroutine.
type router struct {
	view atomic.Pointer[shards.View]
}

// watch follows the group until ctx ends, or use returns false.
func (r *router) watch(ctx context.Context, group *shards.Group, use func(*shards.View) bool) (err error) {
	var view *shards.View
	for view, err = range group.Watch(ctx) {
		if err != nil {
			continue // no process has joined yet, or the server is away: then the last view is the best that there is
		}
		r.view.Store(view)
		if !use(view) {
			return nil
		}
	}
	return err // the last one: ctx has ended, or the session is closed
}

// address returns where the requests of a tenant go: "" while no process owns it. A request may arrive too late: so the
// process asks Member.Own whether the tenant is its own.
func (r *router) address(name string) string {
	view := r.view.Load()
	if view == nil {
		return ""
	}
	owner, _ := view.Owner(name)
	return owner.Value
}
