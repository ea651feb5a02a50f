// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/test"
)

// latchScene is a round of three ids, of which one was counted, and a waiter; a round before it is over.
type latchScene struct {
	*fixture

	latches []*countdown.Latch // of three processes
	round   countdown.Round
	waiting <-chan error
	old     test.Backup // while the round before was running
}

func (f *fixture) newLatchScene() *latchScene {
	s := &latchScene{fixture: f}
	for range 3 {
		s.latches = append(s.latches, countdown.New(f.user().Session, "a", countdown.Keep(12*time.Hour)))
	}
	before := mustStart(f, s.latches[0], 2)
	mustCount(f, before, 1, "1")
	s.old = backupOf(f.redis)
	mustCount(f, before, 0, "2")
	time.Sleep(time.Minute)
	s.round = mustStart(f, s.latches[0], 3)
	mustCount(f, s.round, 2, "1")
	s.waiting = waitsFor(f, s.latches[1].RoundOf(s.round.ID()))
	time.Sleep(5 * time.Second)
	return s
}

// count counts all ids down at a process, again, as its workers would.
func (s *latchScene) count(process int) (err error) {
	for _, id := range []string{"1", "2", "3"} {
		began := time.Now()
		_, one := s.latches[process].RoundOf(s.round.ID()).CountDown(s.Context(), id)
		require.LessOrEqual(s, time.Since(began), time.Second)
		err = errors.Join(err, one)
	}
	return err
}

// ended returns what the waiter got within two polls.
func (s *latchScene) ended() (is bool, err error) {
	time.Sleep(3 * time.Second)
	synctest.Wait()
	select {
	case err := <-s.waiting:
		return true, err
	default:
		return false, nil
	}
}

// serves requires that the latch serves when its key is gone, and that it leaves nothing.
func (s *latchScene) serves(key, what string) {
	s.Helper()
	s.redis.Del(key)
	again := mustStart(s.fixture, s.latches[0], 1)
	waiting := waitsFor(s.fixture, s.latches[1].RoundOf(again.ID()))
	mustCount(s.fixture, s.latches[2].RoundOf(again.ID()), 0, "1")
	opens(s.fixture, waiting)
	time.Sleep(13 * time.Hour)
	require.Empty(s, s.redis.Keys(), what)
}

// P1, P4, P6: whatever another program does to the key of a latch, a waiter does not return nil before its ids were counted, unless that
// program counts. It has an error within two polls if the round is lost, and else returns when the workers have counted, or again.
func TestAFaultOfALatchIsBoundedOrNamed(t *testing.T) {
	t.Parallel()
	for n, more := 0, true; more; n++ {
		bubbleOfUsers(t, func(f *fixture) {
			s := f.newLatchScene()
			all := backupOf(f.redis)
			key := slices.Collect(maps.Keys(all))[0]
			faults := keyFaults(key, all[key], map[string]test.BackupKey{"a minute ago": s.old[key]})
			if more = n < len(faults); !more {
				return
			}
			what := slices.Sorted(maps.Keys(faults))[n]
			raw, _ := f.client(f.T)
			for _, c := range faults[what] {
				require.NoError(f, raw.Do(f.Context(), raw.B().Arbitrary(c[0]).Args(c[1:]...).Build()).Error(), what)
			}
			raw.Close()
			is, err := s.ended()
			require.True(f, !is || err != nil, "%s: it opened", what)
			known := errors.Is(err, signalbox.ErrRoundLost) || errors.Is(err, signalbox.ErrWrongKind) || errors.Is(err, signalbox.ErrUnsupported) || errors.Is(err, signalbox.ErrReset)
			require.True(f, !is || known, "%s: %v", what, err)
			counted := s.count(2)
			if !is {
				is, err = s.ended()
				require.True(f, is, "%s: it waits still; workers: %v", what, counted)
				require.True(f, err != nil || counted == nil, "%s: %v", what, counted)
			}
			s.serves(key, what)
		})
	}
}

// P6: a step of the server's clock loses no round that runs and opens none, except that its key ends early if it is set forward by longer
// than that is kept: then a waiter has ErrRoundLost within two polls.
func TestAStepOfTheServersClockLosesNoRound(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, step := range []time.Duration{time.Millisecond, -time.Millisecond, 100 * time.Second, -100 * time.Second, 2 * time.Hour, -2 * time.Hour, year, -year / 2, 30 * year} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				ahead := f.skewed()
				s := f.newLatchScene()
				f.stepsClock(ahead, step)
				is, err := s.ended()
				if step >= year {
					require.ErrorIs(f, err, signalbox.ErrRoundLost)
				} else {
					require.False(f, is, "%v", err)
					require.NoError(f, s.count(2))
					is, err = s.ended()
					require.True(f, is && err == nil, "%v", err)
				}
				next := mustStart(f, s.latches[0], 1)
				require.NotEqual(f, s.round.ID(), next.ID())
				mustCount(f, next, 0, "1")
				f.stepsClock(ahead, -time.Duration(ahead.Load()))
				later := mustStart(f, s.latches[0], 1)
				require.NotContains(f, []uint64{s.round.ID(), next.ID()}, later.ID())
				waiting := waitsFor(f, s.latches[1].RoundOf(later.ID()))
				mustCount(f, s.latches[2].RoundOf(later.ID()), 0, "1")
				opens(f, waiting)
			})
		})
	}
}
