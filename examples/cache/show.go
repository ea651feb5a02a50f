// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
)

const (
	processes = 4
	callers   = 25 // of each process
)

// show calls both kinds of cache from all processes at once.
func show(ctx context.Context, url string) error {
	var sessions []*signalbox.Session
	for range processes {
		session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
		if err != nil {
			return err
		}
		defer session.Close(context.WithoutCancel(ctx))
		sessions = append(sessions, session)
	}
	var shop shop
	fromOnce := func(ctx context.Context, s *signalbox.Session) ([]byte, error) {
		return stored(ctx, s, "tea", shop.query)
	}
	cache := &memory{prices: make(map[string][]byte)}
	fromCache := func(ctx context.Context, s *signalbox.Session) ([]byte, error) {
		return filled(ctx, s, cache, "tea", shop.query)
	}

	if err := stampede(ctx, sessions, &shop, "stored by once", fromOnce); err != nil {
		return err
	}
	if err := stampede(ctx, sessions, &shop, "and again", fromOnce); err != nil {
		return err
	}
	if err := forget(ctx, sessions[0], "tea"); err != nil {
		return err
	}
	shop.closed.Store(true) // the first one that asks gets an error
	if err := stampede(ctx, sessions, &shop, "forgotten, and the source fails once", fromOnce); err != nil {
		return err
	}
	return stampede(ctx, sessions, &shop, "in a cache of our own", fromCache)
}

// stampede calls get from all callers at once, and prints how often the source was asked.
func stampede(ctx context.Context, sessions []*signalbox.Session, shop *shop, title string,
	get func(context.Context, *signalbox.Session) ([]byte, error),
) error {
	shop.queries.Store(0)
	var failed atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for n := range processes * callers {
		all.Go(func() error {
			value, err := get(ctx, sessions[n%processes])
			switch {
			case errors.Is(err, errClosed):
				failed.Add(1)
				return nil
			case err == nil && string(value) != "3.20":
				return fmt.Errorf("the price is %q", value)
			}
			return err
		})
	}
	err := all.Wait()
	fmt.Printf("%s: %d callers, the source was asked %d times, %d callers got an error\n",
		title, processes*callers, shop.queries.Load(), failed.Load())
	return err
}

var errClosed = errors.New("the shop is closed")

// shop is the slow source.
type shop struct {
	queries atomic.Int64
	closed  atomic.Bool // the source fails for the first caller
}

func (s *shop) query(context.Context, string) ([]byte, error) {
	s.queries.Add(1)
	if s.closed.CompareAndSwap(true, false) {
		return nil, errClosed
	}
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
	return []byte("3.20"), nil
}

// memory stands for a store that the processes share.
type memory struct {
	mu     sync.Mutex
	prices map[string][]byte
}

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, found := m.prices[key]
	return value, found, nil
}

func (m *memory) Set(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prices[key] = value
	return nil
}
