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

// fleetLog is what the processes of a fleet have reported.
type fleetLog struct {
	mu struct {
		sync.Mutex
		ops    int
		waits  *waits
		last   time.Time // when a process acquired the lock the last time
		gap    time.Duration
		holder *member      // that has reported no release yet; nil if there is none
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
	l.mu.ops, l.mu.waits, l.mu.last, l.mu.gap = 0, new(waits), time.Now(), 0
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
			l.asks(m)
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
	l.mu.gap, l.mu.last = max(l.mu.gap, now.Sub(l.mu.last)), now
	l.mu.holder = m
	if l.mu.next != nil {
		l.mu.next <- m // it has room for one
		l.mu.next = nil
	}
}

// asks notes that a process has no lock. The next one may have reported before it that it has acquired the lock.
func (l *fleetLog) asks(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.asked = time.Now()
	if l.mu.holder == m {
		l.mu.holder = nil
	}
}

// cut counts the wait of a process that is given up.
func (l *fleetLog) cut(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waits.add(time.Since(m.asked))
}

// next returns what receives the next process that acquires the lock. One goroutine awaits it.
func (l *fleetLog) next() <-chan *member {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.next = make(chan *member, 1)
	return l.mu.next
}

func (l *fleetLog) holds(m *member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.holder == m
}

func (l *fleetLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.ops
}

// totals returns the waits and the longest gap. No process reports any more.
func (l *fleetLog) totals() (*waits, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.waits, l.mu.gap
}
