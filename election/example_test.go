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

// Before a host is restarted its leader hands over. StepDown says how long the work needs to stop.
func ExampleElection_Handover() {
	ctx := context.Background()
	old, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer old.Close(context.Background())
	next, err := signalbox.Dial(ctx, serverURL) // in another process
	if err != nil {
		log.Fatal(err)
	}
	defer next.Close(context.Background())

	leader := election.New(old, "writer", election.StepDown(3*time.Second))
	term, err := leader.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-term.Done() // the work stops
		fmt.Println("asked to hand over:", errors.Is(term.Err(), election.ErrHandover))
		_ = term.Resign()
	}()
	_, err = leader.Handover(ctx, "")
	fmt.Println("no other waits:", errors.Is(err, election.ErrNoCandidate))

	led := make(chan election.Term, 1)
	go func() {
		term, err := election.New(next, "writer").Campaign(ctx)
		if err != nil {
			log.Print(err)
		}
		led <- term
	}()
	for {
		found, err := leader.Handover(ctx, next.ID())
		if errors.Is(err, election.ErrNoCandidate) { // it does not wait yet
			continue
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Println("the other leads:", found.Session == next.ID())
		break
	}
	fmt.Println((<-led).Resign())
	// Output:
	// no other waits: true
	// asked to hand over: true
	// the other leads: true
	// <nil>
}

// For code that was written for the leader election of Kubernetes.
func ExampleElection_RunCallbacks() {
	ctx, stop := context.WithCancel(context.Background())
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("pod-1"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	e := election.New(session, "controller")
	err = e.RunCallbacks(ctx, election.Callbacks{
		OnStartedLeading: func(ctx context.Context) {
			fmt.Println("leading:", e.Leading())
			stop()
			<-ctx.Done()
		},
		OnStoppedLeading: func() { fmt.Println("stopped") },
		OnNewLeader:      func(string) {}, // of every process
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// leading: true
	// stopped
	// true
}
