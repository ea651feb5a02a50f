// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// lock creates the key. While another process has it, it watches the key, and tries again when the key is gone.
func (p *natsProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	revision, err := p.bucket.Create(ctx, name, nil)
	if errors.Is(err, jetstream.ErrKeyExists) {
		revision, err = p.wait(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	return p.renew(ctx, name, revision), nil
}

func (p *natsProcess) wait(ctx context.Context, name string) (revision uint64, err error) {
	changes, err := p.bucket.Watch(ctx, name, jetstream.MetaOnly())
	if err != nil {
		return 0, err
	}
	defer func() { _ = changes.Stop() }()
	for there := false; ; {
		select {
		case entry := <-changes.Updates(): // nil when the watch has begun
			if entry != nil {
				there = entry.Operation() == jetstream.KeyValuePut
			}
			if there {
				continue
			}
			if revision, err = p.bucket.Create(ctx, name, nil); !errors.Is(err, jetstream.ErrKeyExists) {
				return revision, err
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// renew updates the key at each third of the lease, until it is unlocked.
func (p *natsProcess) renew(ctx context.Context, name string, revision uint64) (unlock func() error) {
	stop, renewed := make(chan struct{}), make(chan error, 1)
	ctx = context.WithoutCancel(ctx)
	go func() { // it alone has revision, until renewed receives; ends with stop, or an error
		each := time.NewTicker(p.lease / 3)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				next, err := p.bucket.Update(ctx, name, nil, revision)
				if err != nil {
					renewed <- err
					return
				}
				revision = next
			case <-stop:
				renewed <- nil
				return
			}
		}
	}()
	return func() error {
		close(stop)
		if err := <-renewed; err != nil {
			return err
		}
		return p.bucket.Delete(ctx, name, jetstream.LastRevision(revision))
	}
}
