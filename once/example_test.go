// SPDX-License-Identifier: Apache-2.0

package once_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/once"
)

// Every process calls Do. One of them makes the report, and all get it.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	for range 2 { // in two processes, as a rule
		report := once.New(session, "report/2026-11-22", once.Keep(24*time.Hour))
		value, ran, err := report.Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
			return []byte("42 orders"), nil // work under ctx, which ends with the lease
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, made here: %v\n", value, ran)
	}
	// Output:
	// 42 orders, made here: true
	// 42 orders, made here: false
}

// A job that runs each night, though each process has a timer for it, and no two clocks agree. The
// key is the time for which the night's run was scheduled.
func ExampleOnce_At() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	cleanUp := once.New(session, "clean-up")

	nightly := func(host string, now time.Time) {
		tick := now.Round(time.Hour) // the schedule, which all processes share: each hour
		_, ran, err := cleanUp.At(tick).Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
			return nil, nil // the work
		})
		fmt.Println(host, "ran it:", ran, err)
	}
	night := time.Date(2026, time.November, 22, 2, 0, 0, 0, time.UTC)
	nightly("host A", night.Add(-150*time.Millisecond)) // by its clock, which is slow
	nightly("host B", night.Add(3*time.Second))
	nightly("host A", night.Add(time.Hour))
	// Output:
	// host A ran it: true <nil>
	// host B ran it: false <nil>
	// host A ran it: true <nil>
}

// Forget lets the next call run again: the outcome was wrong, or is needed anew.
func ExampleOnce_Forget() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	prices := once.New(session, "prices")

	for _, price := range []string{"7", "8"} {
		value, _, err := prices.Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) { return []byte(price), nil })
		fmt.Println(string(value), err)
		if err := prices.Forget(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 7 <nil>
	// 8 <nil>
}
