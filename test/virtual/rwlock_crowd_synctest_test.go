// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/rwlock"
)

// protectedState is what the lock under test protects: it notes holders that overlap.
type protectedState struct {
	readers, writers atomic.Int32
	writes, reads    atomic.Int64
	last             uint64        // token of the last writer; guarded by the lock under test
	lastRead         atomic.Uint64 // greatest token of a reader
}

func (p *protectedState) write(_ context.Context, lease signalbox.Lease) error {
	defer p.writers.Add(-1)
	if p.writers.Add(1) != 1 || p.readers.Load() != 0 {
		return errors.New("a writer is not alone")
	}
	if lease.Token() <= p.last || lease.Token() <= p.lastRead.Load() {
		return errors.New("a writer's token is not greater than all before")
	}
	p.last = lease.Token()
	p.writes.Add(1)
	time.Sleep(rand.N(time.Millisecond))
	return nil
}

// writeAndRead writes, and then reads by a downgrade.
func (p *protectedState) writeAndRead(mu *rwlock.Lock) func(context.Context, signalbox.Lease) error {
	return func(ctx context.Context, lease signalbox.Lease) error {
		if err := p.write(ctx, lease); err != nil {
			return err
		}
		p.readers.Add(1) // it counts as a reader, and as one that was a writer
		defer p.readers.Add(-1)
		if err := mu.Downgrade(context.WithoutCancel(ctx), lease); err != nil {
			return err
		}
		time.Sleep(rand.N(time.Millisecond))
		if p.last != lease.Token() || p.writers.Load() != 0 {
			return errors.New("another wrote after a downgrade")
		}
		return lease.Err()
	}
}

func (p *protectedState) read(_ context.Context, lease signalbox.Lease) error {
	defer p.readers.Add(-1)
	if p.readers.Add(1); p.writers.Load() != 0 {
		return errors.New("a reader beside a writer")
	}
	if lease.Token() <= p.last {
		return errors.New("a reader's token is not greater than that of the last writer")
	}
	for seen := p.lastRead.Load(); seen < lease.Token() && !p.lastRead.CompareAndSwap(seen, lease.Token()); {
		seen = p.lastRead.Load()
	}
	p.reads.Add(1)
	time.Sleep(rand.N(time.Millisecond))
	return nil
}

// P1, P3, P4: writers are alone, readers are beside readers only, and tokens rise, over sessions and goroutines, with
// downgrades, in both layouts; also if contexts end anywhere. Nothing is left in the end.
func TestRWWriterIsAloneAndTokensRise(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]signalbox.LockOption{ //nolint:paralleltest // as above
		"Own": nil, "Redisson": {signalbox.WithLayout(redisson.Layout())},
	} {
		for suffix, patience := range map[string]time.Duration{"": time.Hour, "WhereverContextsEnd": 15 * time.Millisecond} {
			t.Run(name+suffix, func(t *testing.T) {
				bubble(t, func(f *fixture) {
					t := f.T
					users, closeAll := f.queueUsers(t, 3, time.Millisecond)
					defer closeAll()
					var place protectedState
					var all sync.WaitGroup
					for _, u := range users {
						mu := rwlock.New(u.Session, "a", options...)
						for n := range 6 {
							take, do := mu.RDo, place.read
							switch {
							case n == 0:
								take, do = mu.Do, place.writeAndRead(mu)
							case n == 3:
								take, do = mu.Do, place.write
							}
							all.Go(func() {
								for range redistest.Rounds(10, 25) {
									ctx, cancel := context.WithTimeout(t.Context(), rand.N(patience)+patience/10)
									err := take(ctx, do)
									cancel()
									if err != nil && !errors.Is(err, context.DeadlineExceeded) {
										t.Error(err)
									}
								}
							})
						}
					}
					all.Wait()
					require.Positive(t, place.writes.Load())
					require.Positive(t, place.reads.Load())
					time.Sleep(10 * time.Second) // until nothing is being undone any more
					f.rwFree(t)
					require.NoError(t, atOnce(t, rwlock.New(users[0].Session, "a", options...)).Unlock())
					f.keysEnd(t)
				})
			})
		}
	}
}
