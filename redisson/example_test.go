// SPDX-License-Identifier: Apache-2.0

package redisson_test

import (
	"context"
	"fmt"
	"log"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A lock that a service in Java knows as redisson.getLock("order/42"), among others that only Go takes.
func ExampleLayout() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	lease, err := reentrant.New(session, "order/42", signalbox.WithLayout(redisson.Layout())).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Unlock())
	// Output: <nil>
}

// A lock that a service in Java knows as redisson.getFencedLock("order/42"), in a cluster where that one's shardedSubscriptionMode is OFF. Tokens
// are the next numbers of the counter that both sides share.
func ExampleLayout_fenced() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	invoices := reentrant.New(session, "invoices", signalbox.WithLayout(redisson.Layout(redisson.Fenced, redisson.PlainChannels)))
	for range 2 {
		lease, err := invoices.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("token", lease.Token())
		if err = lease.Unlock(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// token 1
	// token 2
}
