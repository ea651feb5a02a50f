// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// reportPatience is how long a process of a fleet may report nothing: longer than any wait and any run.
const reportPatience = 2 * deadline

// stall is a gap that shows that the lock waited for the lease of a killed process.
const stall = time.Second

// fleetLog is what the processes of a fleet have reported.
type fleetLog struct {
	mu struct {
		sync.Mutex
		ops    int
		waits  *waits
		last   time.Time // when a process acquired the lock the last time
		gap    time.Duration
		stalls int          // gaps of more than stall
		next   chan *member // receives the next one that acquires the lock; nil if it is not awaited
	}
}

func newFleetLog() *fleetLog {
	l := new(fleetLog)
	l.reset()
	return l
}

// reset forgets what was counted so far.
func (l *fleetLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ops, l.mu.waits, l.mu.last, l.mu.gap, l.mu.stalls = 0, new(waits), time.Now(), 0, 0
}

// read reads what a process reports until it ends: its wait in nanoseconds when it has acquired the lock, and an empty line
// when it is about to ask for it, which is after its start and after each release.
func (l *fleetLog) read(m *member) error {
	for ready := false; ; ready = true {
		line, err := m.process.ReadLine(reportPatience)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a worker's report: %w", err)
		}
		if line == "" {
			l.recordRequest(m)
		} else {
			wait, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				return fmt.Errorf("a worker's report: %w", err)
			}
			l.acquired(m, time.Duration(wait))
		}
		if !ready {
			close(m.ready)
		}
	}
}

func (l *fleetLog) acquired(m *member, wait time.Duration) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ops++
	l.mu.waits.add(wait)
	gap := now.Sub(l.mu.last)
	l.mu.gap, l.mu.last = max(l.mu.gap, gap), now
	if gap > stall {
		l.mu.stalls++
	}
	if l.mu.next != nil {
		l.mu.next <- m // it has room for one
		l.mu.next = nil
	}
}

// recordRequest records that a process begins to wait.
func (l *fleetLog) recordRequest(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.requestedAt = time.Now()
}

// recordGivenUp counts the wait of a process that is given up.
func (l *fleetLog) recordGivenUp(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waits.add(time.Since(m.requestedAt))
}

// nextHolder returns the next process that acquires the lock, or other if none does.
func (l *fleetLog) nextHolder(other *member) *member {
	next := make(chan *member, 1)
	l.mu.Lock()
	l.mu.next = next
	l.mu.Unlock()
	late := time.NewTimer(restartPatience)
	defer late.Stop()
	select {
	case m := <-next:
		return m
	case <-late.C:
		return other
	}
}

func (l *fleetLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.ops
}

// totals returns the waits, the longest gap and the number of stalls. No process reports any more.
func (l *fleetLog) totals() (all *waits, gap time.Duration, stalls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.waits, l.mu.gap, l.mu.stalls
}
