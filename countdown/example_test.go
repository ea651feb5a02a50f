// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
)

// One starts a round and waits; workers, in whatever process, count down what they have done.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	files := []string{"a.csv", "b.csv", "c.csv"}
	round, err := countdown.New(session, "import/42").Start(ctx, len(files))
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files {
		go importFile(session, round.ID(), file) // in another process, as a rule
	}
	if err := round.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("all files are in")
	// Output: all files are in
}

// importFile is a worker: it knows of the round what came with its work.
func importFile(session *signalbox.Session, round uint64, file string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// ... the work ...
	if _, err := countdown.New(session, "import/42").RoundOf(round).CountDown(ctx, file); err != nil {
		log.Println(err) // errors.Is(err, signalbox.ErrRoundOver): too late, the next round is on
	}
}

// An id counts once: a worker that is not sure repeats it.
func ExampleRound_CountDown() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	round, err := countdown.New(session, "repeated").Start(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"one", "one", "two", "two"} {
		left, err := round.CountDown(ctx, id)
		fmt.Println(id, left, err)
	}
	// Output:
	// one 1 <nil>
	// one 1 <nil>
	// two 0 <nil>
	// two 0 <nil>
}

// A bounded wait is a context with a deadline.
func ExampleRound_Wait() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	round, err := countdown.New(session, "patience").Start(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	patience, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err = round.Wait(patience)
	left, _ := round.Count(ctx)
	fmt.Println("out of patience:", errors.Is(err, context.DeadlineExceeded), "left:", left)
	// Output: out of patience: true left: 1
}

// A waiter for a round that is reset gets an error.
func ExampleLatch_Reset() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	latch := countdown.New(session, "vain")
	round, err := latch.Start(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	if err := latch.Reset(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(round.Wait(ctx), signalbox.ErrReset))
	// Output: true
}

// A caller without an ID joins the newest round.
func ExampleLatch_Round() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	latch := countdown.New(session, "joined")
	_, err = latch.Round(ctx)
	fmt.Println("none yet:", errors.Is(err, signalbox.ErrNoRound))
	started, err := latch.Start(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	joined, err := latch.Round(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("joined:", joined.ID() == started.ID())
	// Output:
	// none yet: true
	// joined: true
}
