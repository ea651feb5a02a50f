// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
)

// Run leads whenever it can, until its context ends.
func Example() {
	ctx, stop := context.WithCancel(context.Background()) // or signal.NotifyContext
	session, err := signalbox.Dial(ctx, serverURL)        // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	e := election.New(session, "scheduler", election.Value("10.0.0.7:8080"))
	err = e.Run(ctx, func(ctx context.Context, term election.Term) error {
		fmt.Println("leading:", term.Token() > 0)
		stop()       // the process is to end
		<-ctx.Done() // so does the work; the lease is released after that
		fmt.Println("stopped:", term.Err() == nil)
		return nil
	})
	fmt.Println("done:", errors.Is(err, context.Canceled))
	// Output:
	// leading: true
	// stopped: true
	// done: true
}

// Campaign and Resign are for programs with a loop of their own.
func ExampleElection_Campaign() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	term, err := election.New(session, "importer", signalbox.WithRenewedLease(30*time.Second)).Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := term.Bind(ctx) // ends with ctx, and 10 s before the lease can end
	fmt.Println("leading:", work.Err() == nil)
	if err := term.Resign(); err != nil { // when the work has stopped
		log.Print(err)
	}
	fmt.Println("over:", errors.Is(context.Cause(work), signalbox.ErrReleased))
	// Output:
	// leading: true
	// over: true
}

// Any process can observe who leads.
func ExampleElection_Observe() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	e := election.New(session, "router", election.Value("10.0.0.7:8080"))
	term, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for leader, err := range e.Observe(ctx) {
		switch {
		case err != nil:
			log.Print("not known: ", err)
		case leader.Token == 0:
			fmt.Println("no process leads")
			return
		case leader.Value != "":
			fmt.Println("send requests to", leader.Value)
			if err := term.Resign(); err != nil {
				log.Print(err)
			}
		}
	}
	// Output:
	// send requests to 10.0.0.7:8080
	// no process leads
}

// A standby that cannot reach the server is not healthy: it would not lead if the leader died.
func ExampleElection_Health() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	e := election.New(session, "standby")

	http.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := e.Health(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	fmt.Println("healthy:", e.Health(ctx) == nil)
	// Output: healthy: true
}
