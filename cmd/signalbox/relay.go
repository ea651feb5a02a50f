// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/signal"
	"sync"
)

// relay forwards the signals of this process to the programs that it runs, for run and shards serve alike. A stop, as by ^Z, stops
// all programs first, and then this process, which renews their leases. Its goroutine ends with close.
type relay struct {
	received chan os.Signal
	closed   chan struct{}
	ending   func(os.Signal) bool // acts on a signal that ends this command, and reports that; nil: the programs decide

	mu       sync.Mutex
	programs map[*child]*relayed // guarded by mu, as stopping
	stopping bool                // reports that the programs are being stopped, and this process after them
}

// relayed is a program that gets signals.
type relayed struct {
	signals chan os.Signal
	stopped bool // reports that it was stopped since stopping began
}

// newRelay catches the signals that are forwarded. Those that come before start wait for it.
func newRelay(ending func(os.Signal) bool) *relay {
	r := &relay{received: make(chan os.Signal, 16), closed: make(chan struct{}), ending: ending, programs: make(map[*child]*relayed)}
	notify(r.received, forwarded()...)
	return r
}

// start begins to forward. A signal that comes while there is no program is dropped: a later program has not loaded its handlers.
func (r *relay) start() {
	go func() {
		for {
			select {
			case s := <-r.received:
				if r.ending == nil || !r.ending(s) {
					r.forward(s)
				}
			case <-r.closed:
				return
			}
		}
	}()
}

func (r *relay) close() {
	signal.Stop(r.received)
	close(r.closed)
}

// begin starts a program, and returns the channel on which its job gets signals; remove ends that. A signal waits until the program is
// in the list, so that one that has said it is ready misses none.
func (r *relay) begin(start func() (*child, error)) (*child, <-chan os.Signal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := start()
	if err != nil {
		return nil, nil, err
	}
	c.relay = r
	p := &relayed{signals: make(chan os.Signal, 16)}
	r.programs[c] = p
	if r.stopping {
		p.signals <- stopSignal
	}
	return c, p.signals, nil
}

// remove is called when the job of a program has ended.
func (r *relay) remove(c *child) {
	r.mu.Lock()
	delete(r.programs, c)
	r.stopWhenAllAre()
}

// forward hands a signal to the jobs of all programs. One that has sixteen waiting does not get it.
func (r *relay) forward(s os.Signal) {
	if s == stopSignal && orphaned() {
		return // without a shell nothing would continue this process
	}
	r.mu.Lock()
	switch s {
	case stopSignal:
		if r.stopping {
			r.mu.Unlock()
			return
		}
		r.stopping = true
	case continueSignal:
		r.resetLocked()
	}
	for _, p := range r.programs {
		p.send(s)
	}
	r.stopWhenAllAre()
}

func (r *relayed) send(s os.Signal) {
	select {
	case r.signals <- s:
	default:
	}
}

// resetLocked ends a stop.
func (r *relay) resetLocked() {
	r.stopping = false
	for _, p := range r.programs {
		p.stopped = false
	}
}

// stopped is called when a program was stopped: by a stop that was forwarded to it, or by the terminal. Then the others are stopped
// too, since nothing renews their leases while this process is stopped.
func (r *relay) stopped(c *child) {
	r.mu.Lock()
	if p := r.programs[c]; p != nil {
		p.stopped = true
	}
	if !r.stopping {
		r.stopping = true
		for other, p := range r.programs {
			if other != c {
				p.send(stopSignal)
			}
		}
	}
	r.stopWhenAllAre()
}

// refusesStop is called if a program cannot be stopped. This process must not stop beside it, and the others continue.
func (r *relay) refusesStop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.programs {
		if p.stopped {
			p.send(continueSignal)
		}
	}
	r.resetLocked()
}

// stopWhenAllAre unlocks mu. It stops this process if all programs are stopped, and returns when it was continued: the signal that
// did that is forwarded.
func (r *relay) stopWhenAllAre() {
	all := r.stopping
	for _, p := range r.programs {
		all = all && p.stopped
	}
	if all {
		r.resetLocked()
	}
	r.mu.Unlock()
	if all {
		stopProcess()
	}
}
