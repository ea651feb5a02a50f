// SPDX-License-Identifier: Apache-2.0

// Command leader is a service of three processes, of which one leads at a time. The first leader gets SIGTERM and
// resigns, the second one is killed, and each time the next process in the queue takes over. A router observes who
// leads.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
)

// lease bounds how long the service has no leader after a crash. The default is 15 s.
const lease = 2 * time.Second

func main() { demo.Processes(show, serve) }

// serve is one process of the service. It runs until it gets SIGTERM.
func serve(ctx context.Context, url, address string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(address))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))

	e := election.New(session, "scheduler", election.Value(address), signalbox.WithRenewedLease(lease))
	err = e.Run(ctx, schedule) // campaigns, leads, resigns, and campaigns again after a loss
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// schedule is the work of the leader. Run resigns when it has returned, and not before.
func schedule(ctx context.Context, term election.Term) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done(): // the term ends, or the process does
			return nil
		case <-again.C:
			startNextJob(ctx, term.Token())
		}
	}
}

// startNextJob stands for the work. A store that gets the token refuses a leader that is late.
func startNextJob(context.Context, uint64) {}

// route calls use whenever another process leads, or none does, until use returns false.
func route(ctx context.Context, session *signalbox.Session, use func(address string, token uint64) bool) (err error) {
	var leader election.Leader
	for leader, err = range election.New(session, "scheduler").Observe(ctx) {
		if err != nil { // the server is away; the old leader may still lead
			fmt.Println("it is not known which process leads:", err)
		} else if !use(leader.Value, leader.Token) {
			return nil
		}
	}
	return err // the last one: ctx has ended, or the session is closed
}
