// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

const publishScript = `return redis.call('PUBLISH', KEYS[1], '1')`

// messages is what a hand-off cannot go below: a script publishes, and the message arrives in
// the other client. It pauses as long as a hand-off does.
func (b *bench) messages(impl implementation) (one sample, err error) {
	set := setup{addr: b.server.Addr()}
	from, err := tunedClient(set)
	if err != nil {
		return sample{}, err
	}
	defer from.Close()
	to, err := tunedClient(set)
	if err != nil {
		return sample{}, err
	}
	defer to.Close()
	digest, err := load(from, publishScript)
	if err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	arrived, ended, err := listen(ctx, to, "handoff")
	if err != nil {
		cancel()
		return sample{}, err
	}
	one, err = b.repeat(ctx, impl, func() (time.Duration, error) {
		pause(ctx, leastWait+rand.N(spreadWait))
		publish := from.B().Evalsha().Sha1(digest).Numkeys(1).Key("handoff").Build()
		sent := time.Now()
		if err := from.Do(ctx, publish).Error(); err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
		at := <-arrived
		return at.Sub(sent), nil
	})
	cancel()
	<-ended
	return one, err
}

// listen subscribes to a channel and returns when the subscription is confirmed. The first result
// has the time at which each message arrived. The second one is closed when the subscription ends,
// which is after ctx ended.
func listen(ctx context.Context, client rueidis.Client, channel string) (<-chan time.Time, <-chan struct{}, error) {
	arrived, confirmed, ended := make(chan time.Time, 1), make(chan struct{}, 1), make(chan struct{})
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { confirmed <- struct{}{} })
	go func() {
		defer close(ended)
		// Its error is that of the context.
		_ = client.Receive(hooked, client.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {
			arrived <- time.Now()
		})
	}()
	select {
	case <-confirmed:
		return arrived, ended, nil
	case <-ended:
		return nil, nil, errors.New("the subscription ended")
	}
}
