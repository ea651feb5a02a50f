// SPDX-License-Identifier: Apache-2.0

// Command leader shows a service of three members, of which one leads at a time. A router observes who leads. The first
// leader is terminated and resigns, the second one crashes, and each time the next member in the queue takes over.
//
// It brings a small server of its own, in memory. SIGNALBOX_REDIS=redis://host:6379 names a real one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/signalbox-go/signalbox/election"
)

// name is that of the election.
const name = "service"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	here, err := openPlace()
	if err != nil {
		return err
	}
	defer here.close()
	fmt.Println(here.greeting)
	members, err := here.start(ctx, "a", "b", "c")
	if err != nil {
		return err
	}
	return route(ctx, here, members)
}

// route prints to whom requests go, and ends each leader in its way.
func route(ctx context.Context, here *place, members map[string]*member) error {
	session, _, err := here.session()
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	var last uint64
	for leader, err := range election.New(session, name).Observe(ctx) {
		switch {
		case err != nil:
			return err
		case leader.Token == 0 && len(members) == 0:
			fmt.Println("no process leads")
			return nil
		case leader.Value == "" || leader.Token == last:
			continue // between two leaders, or not announced yet
		}
		fmt.Printf("requests go to %s, with a greater token: %t\n", leader.Value, leader.Token > last)
		last = leader.Token
		if err := members[leader.Value].end(ctx, leader.Value); err != nil {
			return err
		}
		delete(members, leader.Value)
	}
	return ctx.Err()
}

// lead is the work of the leader.
func lead(ctx context.Context, _ election.Term) error {
	<-ctx.Done() // a scheduler would run here, and pass the term's token to what it writes to
	return nil
}

// end ends a member: b crashes, the others are terminated.
func (m *member) end(ctx context.Context, name string) error {
	if name == "b" {
		fmt.Println("b crashes")
		m.client.Close() // nothing is renewed or released any more
		return nil
	}
	fmt.Println(name, "is terminated")
	m.terminate()
	if err := <-m.returned; !errors.Is(err, context.Canceled) {
		return err
	}
	return m.session.Close(context.WithoutCancel(ctx))
}
