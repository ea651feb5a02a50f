// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
)

// nightlyTable is a table with a unique key.
type nightlyTable struct {
	mu       sync.Mutex
	recorded map[string]uint64 // the tokens, by night
	begun    map[string]int    // the number of times the job began
}

var errRecorded = errors.New("the key exists")

func (n *nightlyTable) begin(night string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun[night]++
}

func (n *nightlyTable) insert(ctx context.Context, night string, token uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n.recorded[night] != 0 {
		return errRecorded
	}
	n.recorded[night] = token
	return nil
}

// nightly is a job that runs once a night, which takes as long as work. It also records the night in a
// table, whose tokens rise.
func nightly(ctx context.Context, s *signalbox.Session, table *nightlyTable, night string, work time.Duration) error {
	job := once.New(s, "clean-up/"+night, signalbox.WithRenewedLease(10*time.Second))
	_, _, err := job.Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
		table.begin(night)
		select {
		case <-time.After(work):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return nil, table.insert(ctx, night, lease.Token())
	})
	return err
}

// The documented job runs once in each of eight nights, over five processes whose timers are up to
// three seconds apart, or, by a clock that is wrong, a minute.
func TestANightlyJobRunsOnceANight(t *testing.T) {
	t.Parallel()
	const processes, ticks, apart = 5, 8, 5 * time.Minute // the nights, which are quiet
	for _, spread := range []time.Duration{100 * time.Millisecond, time.Minute, 0, 3 * time.Second}[:redistest.Rounds(2, 4)] {
		bubble(t, func(f *fixture) {
			table := &nightlyTable{recorded: make(map[string]uint64), begun: make(map[string]int)}
			var all sync.WaitGroup
			for range processes {
				s, _, closeAll := f.session(f.T)
				defer closeAll()
				all.Go(func() {
					for tick := range ticks {
						late := rand.N(spread + 1)
						time.Sleep(late)
						if err := nightly(f.Context(), s, table, fmt.Sprint(tick), 200*time.Millisecond); err != nil {
							f.Error(err)
						}
						time.Sleep(apart - late)
					}
				})
			}
			all.Wait()
			for tick := range ticks {
				require.Equal(f, 1, table.begun[fmt.Sprint(tick)], "apart by %v", spread)
				require.NotZero(f, table.recorded[fmt.Sprint(tick)])
			}
		})
	}
}

// If the process that runs it is closed or cut off from the server, another one runs it, in the
// same night. It is recorded once.
func TestANightlyJobOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *signalbox.Session, link *wire){ //nolint:paralleltest // one bubble after the other
		"Close": func(s *signalbox.Session, _ *wire) {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.Close(ended)
		},
		"CutOff": func(_ *signalbox.Session, link *wire) { link.goSilent() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				table := &nightlyTable{recorded: make(map[string]uint64), begun: make(map[string]int)}
				first, link, closeFirst := f.session(f.T)
				defer closeFirst()
				ends := make(chan error, 1)
				go func() { ends <- nightly(f.Context(), first, table, "a", time.Minute) }()
				time.Sleep(time.Second)
				var others sync.WaitGroup
				for range 4 {
					s, _, closeAll := f.session(f.T)
					defer closeAll()
					others.Go(func() {
						if err := nightly(f.Context(), s, table, "a", time.Minute); err != nil {
							f.Error(err)
						}
					})
				}
				time.Sleep(time.Second)
				end(first, link)
				require.Error(f, <-ends)
				others.Wait()
				require.Equal(f, 2, table.begun["a"])
				require.NotZero(f, table.recorded["a"])
			})
		})
	}
}
