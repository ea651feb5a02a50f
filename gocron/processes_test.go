// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/gocron"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverEnv is the environment variable with the server's URL for a child.
const serverEnv = "GOCRON_TEST_URL"

// processPeriod is the period of the job of a child, and processLease the lease of a tick.
const processPeriod, processLease = 100 * time.Millisecond, time.Second

// jobTicks is how many more ticks a scheduler sees before its run of a tick ends: a run is longer than the period, on
// any machine.
const jobTicks = 3

// childJob is the job of a child. It reports to the test, a line for each event:
//
//	tick <milliseconds>   a call of Lock began in the period after that time
//	failed                a call of Lock returned an error other than ErrRan
//	held                  runs do not end from now on
//	began                 a run began
type childJob struct {
	*sbgocron.Locker

	out io.Writer

	mu      sync.Mutex
	changed *sync.Cond
	ticks   int
	held    bool // runs do not end
}

// runScheduler is a process with a scheduler. It reads "hold" and "go".
func runScheduler(stdin io.Reader, stdout io.Writer) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(serverEnv))
	must(err)
	j := &childJob{out: stdout}
	j.changed = sync.NewCond(&j.mu)
	j.Locker = sbgocron.NewLocker(s, processPeriod, signalbox.WithRenewedLease(processLease)).WithNow(j.now)
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithDistributedLocker(j))
	must(err)
	j.Attach(scheduler)
	_, err = scheduler.NewJob(gocron.DurationJob(processPeriod), gocron.NewTask(j.run), gocron.WithName("job"),
		gocron.WithStartAt(gocron.WithStartDateTimePast(time.Now().Truncate(processPeriod))))
	must(err)
	scheduler.Start()
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		j.obey(lines.Text())
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Lock implements gocron.Locker.
func (j *childJob) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := j.Locker.Lock(ctx, job)
	if err != nil && !errors.Is(err, sbgocron.ErrRan) {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(j.out, "failed")
	}
	return lock, err
}

// now is the clock of the Locker, which reads it once in each call of Lock.
func (j *childJob) now() time.Time {
	now := time.Now()
	fmt.Fprintln(j.out, "tick", now.Truncate(processPeriod).UnixMilli())
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ticks++
	j.changed.Broadcast()
	return now
}

func (j *childJob) obey(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = line == "hold"
	if j.held {
		fmt.Fprintln(j.out, "held") // before the next run begins
	}
	j.changed.Broadcast()
}

func (j *childJob) run() {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(j.out, "began")
	for began := j.ticks; j.held || j.ticks < began+jobTicks; {
		j.changed.Wait()
	}
}

// schedulerProcess is a child, and what it has reported.
type schedulerProcess struct {
	*redistest.Process

	mu     sync.Mutex
	seen   map[int64]bool // the times of its ticks
	failed int
	holds  bool // the child holds its runs
	began  bool // a run began since the child holds its runs
}

// read records the reports of the child until it ends.
func (p *schedulerProcess) read() {
	for {
		line, err := p.ReadLine(redistest.WaitLimit)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return
		}
		p.mu.Lock()
		switch event, at, _ := strings.Cut(line, " "); event {
		case "tick":
			tick, _ := strconv.ParseInt(at, 10, 64)
			p.seen[tick] = true
		case "failed":
			p.failed++
		case "held":
			p.holds, p.began = true, false
		case "began":
			p.began = p.holds
		}
		p.mu.Unlock()
	}
}

// ticks returns how many ticks the child has seen.
func (p *schedulerProcess) ticks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// holdsRun reports whether the child has a run that does not end.
func (p *schedulerProcess) holdsRun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began
}

// schedulerFleet is some of these processes at one server.
type schedulerFleet struct {
	*testing.T

	server  *redistest.Server
	all     []*schedulerProcess
	alive   []*schedulerProcess
	claimed map[int64]bool // the ticks that were claimed when one of them was killed, or are now
}

func startFleet(t *testing.T, n int) *schedulerFleet {
	t.Helper()
	f := &schedulerFleet{T: t, server: redistest.Start(t), claimed: make(map[int64]bool)}
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait) // after the children have ended
	for range n {
		p := &schedulerProcess{Process: redistest.Child(t, "scheduler", serverEnv+"="+f.server.URL()), seen: make(map[int64]bool)}
		f.all = append(f.all, p)
		readers.Go(p.read)
	}
	f.alive = slices.Clone(f.all)
	return f
}

// stored returns the ticks whose end the server has stored.
func (f *schedulerFleet) stored() map[int64]bool { return f.keys(":once") }

// keys returns the ticks of the keys that end so.
func (f *schedulerFleet) keys(suffix string) map[int64]bool {
	ticks := make(map[int64]bool)
	for _, key := range f.server.Keys("sb:{job@*}" + suffix) {
		text, _, _ := strings.Cut(strings.TrimPrefix(key, "sb:{job@"), "}")
		tick, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(f, err, key)
		ticks[tick.UnixMilli()] = true
	}
	return ticks
}

// awaitStored waits until the ends of n ticks are stored, and those of all ticks that are known to be claimed: except for as many as
// requests failed, since a scheduler that hears nothing of a tick for half a period gives its claim back.
func (f *schedulerFleet) awaitStored(n int) {
	f.Helper()
	maps.Copy(f.claimed, f.keys(":lock"))
	redistest.AwaitFor(f, time.Minute, "the ends of ticks", func() bool {
		stored, unstored := f.stored(), 0
		for tick := range f.claimed {
			if !stored[tick] {
				unstored++
			}
		}
		for _, p := range f.all {
			p.mu.Lock()
			unstored -= p.failed
			p.mu.Unlock()
		}
		return len(stored) >= n && unstored <= 0
	})
}

// killAWinner kills a process in its run, after all have seen further ticks: none of them waits for the end of a run.
func (f *schedulerFleet) killAWinner() {
	f.Helper()
	for _, p := range f.alive {
		p.Send("hold")
	}
	victim := -1
	redistest.Await(f, "a run", func() bool {
		for i, p := range f.alive {
			if p.holdsRun() {
				victim = i
			}
		}
		return victim >= 0
	})
	for _, p := range f.alive {
		from := p.ticks()
		redistest.Await(f, "further ticks", func() bool { return p.ticks() >= from+jobTicks })
	}
	maps.Copy(f.claimed, f.keys(":lock"))
	f.alive[victim].Kill()
	f.alive = append(f.alive[:victim], f.alive[victim+1:]...)
	for _, p := range f.alive {
		p.mu.Lock()
		p.holds, p.began = false, false
		p.mu.Unlock()
		p.Send("go")
	}
}

// Five processes, and four of them are killed one after the other, each in a run that takes longer than the period. The end of
// every tick that one of them claimed is stored, and each tick that a scheduler asked for which is alive was claimed. No
// scheduler waits for the end of a run.
func TestKilledSchedulersLoseNoTick(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "ticks come in real time, and the leases of killed processes have to end")
	const processes, ticks = 5, 100
	f := startFleet(t, processes)
	for n := 1; n < processes; n++ {
		f.awaitStored(n * ticks / processes)
		f.killAWinner()
	}
	f.awaitStored(ticks)
	f.requireNoGap()
}

// requireNoGap requires that each tick was claimed that the schedulers which are alive asked for, unless the request failed.
func (f *schedulerFleet) requireNoGap() {
	stored := f.stored()
	var last int64
	for tick := range stored {
		last = max(last, tick)
	}
	for _, p := range f.alive {
		p.mu.Lock()
		var unclaimed []int64
		for tick := range p.seen {
			if tick < last && !stored[tick] && !f.claimed[tick] {
				unclaimed = append(unclaimed, tick)
			}
		}
		f.Logf("%d ticks seen, %d requests failed; %d ticks were run", len(p.seen), p.failed, len(stored))
		require.LessOrEqual(f, len(unclaimed), p.failed, unclaimed)
		p.mu.Unlock()
	}
}
