// SPDX-License-Identifier: Apache-2.0

// Command cache is a cache that many processes share, without a stampede: a hundred callers of four processes miss
// one price at the same time, and one of them asks the slow source. It shows two ways: a value that package once
// stores, and a cache of your own with a lock and a second look into the cache.
package main

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() { demo.Main(show) }

// source is what is slow: a query, another service, a computation.
type source func(ctx context.Context, product string) ([]byte, error)

// stored returns the price of a product. The server of the locks keeps it for a minute; then the next call asks
// the source. An error of the source is returned to one caller and is not kept.
func stored(ctx context.Context, session *signalbox.Session, product string, load source) ([]byte, error) {
	value, _, err := price(session, product).Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
		return load(ctx, product)
	})
	return value, err
}

// forget makes the next call of stored ask the source: the price has changed.
func forget(ctx context.Context, session *signalbox.Session, product string) error {
	return price(session, product).Forget(ctx)
}

func price(session *signalbox.Session, product string) *once.Once {
	return once.New(session, "price/"+product, once.Keep(time.Minute))
}

// store is a cache of your own, such as other keys of the same server, for values of more than 1 MB, or with
// rules of its own about what is kept.
type store interface {
	Get(ctx context.Context, key string) (value []byte, found bool, err error)
	Set(ctx context.Context, key string, value []byte) error
}

// filled returns the price of a product from a store of your own.
func filled(ctx context.Context, session *signalbox.Session, cache store, product string, load source) ([]byte, error) {
	if value, found, err := cache.Get(ctx, product); found || err != nil {
		return value, err
	}
	lease, err := reentrant.New(session, "fill/"+product).Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Unlock()
	ctx = lease.Bind(ctx)
	if value, found, err := cache.Get(ctx, product); found || err != nil { // another caller has filled it
		return value, err
	}
	value, err := load(ctx, product)
	if err != nil {
		return nil, err
	}
	return value, cache.Set(ctx, product, value)
}
