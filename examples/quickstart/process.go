// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// What a process of this program does that the tour has started.
const (
	counts = "counts"
	holds  = "holds"
)

func process(ctx context.Context, url, name string) error {
	s, err := signalbox.Dial(ctx, url, signalbox.WithPrefix(prefix))
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	if name == holds {
		return hold(ctx, s)
	}
	return count(ctx, url, s)
}

// count adds one to the counter, again and again, under the same lock as the other processes.
func count(ctx context.Context, url string, s *signalbox.Session) error {
	client, err := dataClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	mu := reentrant.New(s, "counter")
	for range rounds {
		err := mu.Do(ctx, func(ctx context.Context, _ signalbox.Lease) error { return addOne(ctx, client) })
		if err != nil && !errors.Is(err, signalbox.ErrUnconfirmed) { // the lock is released in the background; the counter shows the rest
			return err
		}
	}
	return nil
}

// addOne reads, adds one and writes back: without the lock updates would be lost.
func addOne(ctx context.Context, client rueidis.Client) error {
	n, err := client.Do(ctx, client.B().Get().Key(counterKey).Build()).AsInt64()
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(counterKey).Value(fmt.Sprint(n+1)).Keepttl().Build()).Error()
}

// dataClient returns a client for the data that the lock protects.
func dataClient(url string) (rueidis.Client, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	signalbox.Tune(&options)
	return rueidis.NewClient(options)
}

// hold acquires the lock, prints the token, and holds the lock until the process is killed.
func hold(ctx context.Context, s *signalbox.Session) error {
	lease, err := reentrant.New(s, doomedName, signalbox.WithRenewedLease(shortLease)).Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock()
	fmt.Println(holdsToken, lease.Token())
	<-ctx.Done()
	return nil
}
