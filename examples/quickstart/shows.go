// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

const (
	prefix     = "shop:"
	counterKey = prefix + "counter"
	doomedName = "doomed"
	holdsToken = "   A process holds the lock, with token"
	workers    = 4
	rounds     = 25

	// shortLease is that of the leases whose end, or survival, is shown.
	shortLease = 500 * time.Millisecond
)

// showCounting starts processes that count, and checks the counter.
func showCounting(ctx context.Context, url string, _ *signalbox.Session) error {
	client, err := dataClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Do(ctx, client.B().Set().Key(counterKey).Value("0").ExSeconds(60).Build()).Error(); err != nil {
		return err
	}
	var group errgroup.Group
	for range workers {
		worker, err := demo.Start(ctx, url, counts)
		if err != nil {
			return err
		}
		group.Go(func() error { _, err := worker.Wait(); return err })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	total, err := client.Do(ctx, client.B().Get().Key(counterKey).Build()).AsInt64()
	if err != nil {
		return err
	}
	fmt.Printf("   %d processes added 1, %d times each. The counter says %d.\n", workers, rounds, total)
	if total != workers*rounds {
		return fmt.Errorf("the counter should say %d", workers*rounds)
	}
	return nil
}

// showTokens acquires one lock three times.
func showTokens(ctx context.Context, _ string, s *signalbox.Session) error {
	mu := reentrant.New(s, "order/42")
	var tokens []string
	for range 3 {
		lease, err := mu.Lock(ctx)
		if err != nil {
			return err
		}
		tokens = append(tokens, fmt.Sprint(lease.Token()))
		if err := lease.Unlock(); err != nil {
			return err
		}
	}
	fmt.Printf("   Three leases, three tokens: %s.\n", strings.Join(tokens, " < "))
	fmt.Println("   Pass the token to what you write to, and let it refuse smaller ones.")
	return nil
}

// showEntering enters again with the context of the lease, and without it.
func showEntering(ctx context.Context, _ string, s *signalbox.Session) error {
	mu := reentrant.New(s, "order/42")
	return mu.Do(ctx, func(inside context.Context, lease signalbox.Lease) error {
		again, err := mu.Lock(inside)
		if err != nil {
			return err
		}
		fmt.Printf("   With the holder's context: entered again, same token (%t), no round trip.\n", again.Token() == lease.Token())
		if _, err := mu.TryLock(ctx); !errors.Is(err, signalbox.ErrHeld) {
			return fmt.Errorf("another context was let in: %w", err)
		}
		fmt.Printf("   With any other context: %v.\n", signalbox.ErrHeld)
		return again.Unlock()
	})
}

// showRenewal holds a lock for longer than its key lives without renewal. A machine that stands still for that long cannot
// renew: then it gets ErrLost, and acquires the lock again.
func showRenewal(ctx context.Context, _ string, s *signalbox.Session) error {
	for {
		err := holdForLong(ctx, s)
		if !errors.Is(err, signalbox.ErrLost) {
			return err
		}
		fmt.Println("   This machine stood still for so long that its lease was lost. Once more.")
	}
}

func holdForLong(ctx context.Context, s *signalbox.Session) error {
	lease, err := reentrant.New(s, "report", signalbox.WithRenewedLease(shortLease)).Lock(ctx)
	if err != nil {
		return err
	}
	held := time.NewTimer(5 * shortLease / 2)
	defer held.Stop()
	select {
	case <-held.C:
	case <-lease.Done():
		return lease.Err()
	}
	fmt.Printf("   A lease of %v, held for %v: still good, until %s at least.\n",
		shortLease, 5*shortLease/2, lease.Deadline().Format("15:04:05.000"))
	return lease.Unlock()
}

// showDeath waits for a lock whose holder is killed.
func showDeath(ctx context.Context, url string, s *signalbox.Session) error {
	holder, err := demo.Start(ctx, url, holds)
	if err != nil {
		return err
	}
	text, err := holder.Await(holdsToken)
	if err != nil {
		return err
	}
	token, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := holder.Kill(); err != nil {
		return err
	}
	lease, err := reentrant.New(s, doomedName).Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("   It is killed. Its lease of %v ends, and %.1f s later the next holder has a greater token (%t).\n",
		shortLease, time.Since(killed).Seconds(), lease.Token() > token)
	return lease.Unlock()
}
