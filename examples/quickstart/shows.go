// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

const (
	prefix      = "quickstart:"
	counterKey  = prefix + "counter"
	counterName = "counter"
	doomedName  = "doomed"
	workers     = 4
	rounds      = 25
)

// shortLease is that of the leases whose end, or survival, is shown.
var shortLease = time.Second //nolint:gochecknoglobals // shorter in tests

// showCounting lets workers read, add one and write back: without the lock updates would be lost.
func showCounting(ctx context.Context, p *place, _ *signalbox.Session) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Do(ctx, client.B().Set().Key(counterKey).Value("0").ExSeconds(60).Build()).Error(); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	kind := "goroutines, each with a session of its own"
	for range workers {
		if p.embedded != nil {
			group.Go(func() error { return countAlone(groupCtx, p) })
			continue
		}
		kind = "processes"
		command, _, err := startRole(groupCtx, roleWorker)
		if err != nil {
			return err
		}
		group.Go(command.Wait)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	total, err := client.Do(ctx, client.B().Get().Key(counterKey).Build()).AsInt64()
	if err != nil {
		return err
	}
	say("   %d %s added 1, %d times each. The counter says %d.", workers, kind, rounds, total)
	if total != workers*rounds {
		return fmt.Errorf("the counter should say %d", workers*rounds)
	}
	return nil
}

// countAlone is one worker: a session of its own, and the same lock as the others.
func countAlone(ctx context.Context, p *place) error {
	s, err := p.session(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	mu := reentrant.New(s, counterName)
	for range rounds {
		err := mu.Do(ctx, func(ctx context.Context, _ signalbox.Lease) error { return addOne(ctx, client) })
		if err != nil && !errors.Is(err, signalbox.ErrUnconfirmed) { // the lock is released in the background; the counter shows the rest
			return err
		}
	}
	return nil
}

func addOne(ctx context.Context, client rueidis.Client) error {
	n, err := client.Do(ctx, client.B().Get().Key(counterKey).Build()).AsInt64()
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(counterKey).Value(fmt.Sprint(n+1)).Keepttl().Build()).Error()
}

// showTokens takes one lock three times.
func showTokens(ctx context.Context, _ *place, s *signalbox.Session) error {
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
	say("   Three leases, three tokens: %s.", strings.Join(tokens, " < "))
	say("   Hand the token to what you write to, and let it refuse smaller ones.")
	return nil
}

// showEntering enters again with the context of the lease, and without it.
func showEntering(ctx context.Context, _ *place, s *signalbox.Session) error {
	mu := reentrant.New(s, "order/42")
	return mu.Do(ctx, func(inside context.Context, lease signalbox.Lease) error {
		again, err := mu.Lock(inside)
		if err != nil {
			return err
		}
		say("   With the holder's context: entered again, same token (%t), no round trip.", again.Token() == lease.Token())
		if _, err := mu.TryLock(ctx); !errors.Is(err, signalbox.ErrHeld) {
			return fmt.Errorf("a stranger was let in: %w", err)
		}
		say("   With any other context: %v.", signalbox.ErrHeld)
		return again.Unlock()
	})
}

// showRenewal holds a lock for longer than its key lives without renewal. A machine that stands still for that long cannot
// renew: then it gets ErrLost, and acquires the lock again.
func showRenewal(ctx context.Context, _ *place, s *signalbox.Session) error {
	for {
		err := holdForLong(ctx, s)
		if !errors.Is(err, signalbox.ErrLost) {
			return err
		}
		say("   This machine stood still for so long that its lease was lost. Once more.")
	}
}

func holdForLong(ctx context.Context, s *signalbox.Session) error {
	lease, err := reentrant.New(s, "report", signalbox.RenewedLease(shortLease)).Lock(ctx)
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
	say("   A lease of %v, held for %v: still good, until %s at least.", shortLease, 5*shortLease/2, lease.Deadline().Format("15:04:05.000"))
	return lease.Unlock()
}

// showDeath waits for a lock whose holder dies.
func showDeath(ctx context.Context, p *place, s *signalbox.Session) error {
	token, die, err := p.doomedHolder(ctx)
	if err != nil {
		return err
	}
	died := time.Now()
	die()
	lease, err := reentrant.New(s, doomedName).Lock(ctx)
	if err != nil {
		return err
	}
	say("   Its lease of %v ended, and %.1f s later the next has the lock, with a greater token (%t).",
		shortLease, time.Since(died).Seconds(), lease.Token() > token)
	return lease.Unlock()
}

// doomedHolder takes the lock in a way that can be made to die: a process to kill, or, with
// the embedded server, a holder that is cut off and cannot renew.
func (p *place) doomedHolder(ctx context.Context) (token uint64, die func(), err error) {
	if p.embedded != nil {
		return p.cutOffHolder(ctx)
	}
	command, output, err := startRole(ctx, roleDoomed)
	if err != nil {
		return 0, nil, err
	}
	if _, err := fmt.Fscan(output, &token); err != nil {
		return 0, nil, fmt.Errorf("the doomed process: %w", err)
	}
	return token, func() {
		say("   A process holds the lock. Now it is killed.")
		_ = command.Process.Kill()
		_ = command.Wait()
	}, nil
}

func (p *place) cutOffHolder(ctx context.Context) (uint64, func(), error) {
	client, err := p.client()
	if err != nil {
		return 0, nil, err
	}
	other := signalbox.NewSession(client, signalbox.WithPrefix(prefix))
	lease, err := reentrant.New(other, doomedName, signalbox.RenewedLease(shortLease)).Lock(ctx)
	if err != nil {
		return 0, nil, err
	}
	return lease.Token(), func() {
		say("   A holder has the lock. Now it is cut off, and cannot renew.")
		client.Close()
	}, nil
}
