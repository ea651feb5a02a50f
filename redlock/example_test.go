// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redlock"
)

// dialAll answers a session for each of three servers that share nothing.
func dialAll(ctx context.Context) (sessions []*signalbox.Session, err error) {
	for _, url := range serverURLs {
		session, err := signalbox.Dial(ctx, url)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, session)
	}
	return sessions, nil
}

func Example() {
	ctx := context.Background()
	sessions, err := dialAll(ctx) // three servers
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, session := range sessions {
		defer session.Close(ctx)
	}
	mu := redlock.New(sessions, "order/42", redlock.Fenced())

	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	lease, err := mu.Lock(wait)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lease.Err() == nil, "with a token:", lease.Token() > 0)
	fmt.Println("given back:", lease.Unlock() == nil)
	// Output:
	// held: true with a token: true
	// given back: true
}

func ExampleNew() {
	// Two servers are no quorum of three, and a quorum of two is both of them.
	fmt.Println(redlock.New(make([]*signalbox.Session, 2), "order/42").Check())
	// Output:
	// signalbox: check "order/42": an option is not valid: 2 sessions: a quorum needs an odd number, three at the least
}

func ExampleFenced() {
	ctx := context.Background()
	sessions, err := dialAll(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, session := range sessions {
		defer session.Close(ctx)
	}
	mu := redlock.New(sessions, "report", redlock.Fenced(), signalbox.RenewedLease(10*time.Second))
	var last uint64
	for range 3 {
		err = mu.Do(ctx, func(_ context.Context, lease signalbox.Lease) error {
			fmt.Println("greater:", lease.Token() > last)
			last = lease.Token()
			return nil
		})
	}
	fmt.Println(err)
	// Output:
	// greater: true
	// greater: true
	// greater: true
	// <nil>
}
