// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redlock"
)

// openAll returns a session for each of three servers that share nothing, also for one that is away for now, and what closes
// them.
func openAll(ctx context.Context) (sessions []*signalbox.Session, closeAll func(), err error) {
	var closes []func()
	closeAll = func() {
		for _, c := range closes {
			c()
		}
	}
	for _, url := range serverURLs {
		options, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, closeAll, err
		}
		options.ForceSingleClient = true // there is a client though the server is away, which connects when it is back
		signalbox.Tune(&options)
		client, err := rueidis.NewClient(options)
		if client == nil {
			return nil, closeAll, err
		}
		session := signalbox.NewSession(client)
		sessions = append(sessions, session)
		closes = append(closes, func() {
			_ = session.Close(ctx)
			client.Close()
		})
	}
	return sessions, closeAll, nil
}

func Example() {
	ctx := context.Background()
	sessions, closeAll, err := openAll(ctx) // three servers
	defer closeAll()
	if err != nil {
		fmt.Println(err)
		return
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
	fmt.Println("released:", lease.Unlock() == nil)
	// Output:
	// held: true with a token: true
	// released: true
}

func ExampleNew() {
	// Two servers are no quorum of three, and a quorum of two is both of them.
	fmt.Println(redlock.New(make([]*signalbox.Session, 2), "order/42").Check())
	// Output:
	// signalbox: check "order/42": an option is not valid: 2 sessions: a quorum needs an odd number, three at the least
}

func ExampleFenced() {
	ctx := context.Background()
	sessions, closeAll, err := openAll(ctx)
	defer closeAll()
	if err != nil {
		fmt.Println(err)
		return
	}
	mu := redlock.New(sessions, "report", redlock.Fenced(), signalbox.WithRenewedLease(10*time.Second))
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
