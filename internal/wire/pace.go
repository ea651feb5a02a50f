// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

const (
	// paceShare is how many times the server's work for a list must pass: a list gets a tenth of the server's time.
	paceShare = 10
	// paceBurst is how long the server may work for a list before the first pause: a small server is listed without pauses.
	paceBurst = 50 * time.Millisecond
	// fixedWork is the server's time for a round trip that no measurement contains: reading and writing.
	fixedWork = 50 * time.Microsecond
	// maxWork bounds the work that is counted for one round trip, and so the pause after it.
	maxWork = 100 * time.Millisecond
	// maxPause bounds the pause after work that did not wait.
	maxPause = 2 * time.Second
)

// Pace holds what lists cost one server to a tenth of its time. All lists of a session share it. Over any time T the work of
// lists that wait is at most T/10 and a burst.
//
// What counts as work is how long the server worked for SCAN, by its own clock, and how long pipelines took beyond the shortest
// round trip. Both grow if the server is busy with others: then lists pause for longer.
type Pace struct {
	mu      sync.Mutex
	paid    time.Duration // the monotonic time at which the work so far will be a tenth of all time; 0 if there was no work
	fastest time.Duration // the shortest round trip; 0 if it is not known
}

// Pace returns the pace of a node, "" for a server that is alone.
func (r *Runner) Pace(node string) *Pace {
	p, _ := r.paces.LoadOrStore(node, new(Pace))
	return p.(*Pace) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// Pause returns how long a list has to wait before it asks this server again; 0 or less if it need not. Of two servers the one
// with the smaller value has done less for lists.
func (p *Pace) Pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paid == 0 {
		return -maxPause
	}
	return p.paid - timers.Mono() - paceShare*paceBurst
}

// Wait waits until a list may ask this server again.
func (p *Pace) Wait(ctx context.Context) error {
	for {
		pause := p.Pause()
		if pause <= 0 {
			return nil
		}
		if !Sleep(ctx, pause, nil) {
			return errs.Ended(ctx)
		}
	}
}

// Sleep waits for d, or until woken has a value. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-woken:
		return true
	case <-ctx.Done():
		return false
	}
}

// countPage counts a page, for which the server was busy; busy is 0 if that is not known.
func (p *Pace) countPage(now, begun, busy time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now - begun
	if busy == 0 {
		p.countLocked(now, took)
		return
	}
	if trip := max(took-busy, 1); p.fastest == 0 || trip < p.fastest {
		p.fastest = trip
	}
	p.countLocked(now, busy)
}

// countCalls counts a pipeline of calls.
func (p *Pace) countCalls(now, begun time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countLocked(now, now-begun-p.fastest)
}

func (p *Pace) countLocked(now, work time.Duration) {
	work = min(max(work, 0)+fixedWork, maxWork)
	begin := now // a monotonic time may be negative
	if p.paid != 0 {
		begin = max(p.paid, now)
	}
	p.paid = min(begin+paceShare*work, now+paceShare*paceBurst+maxPause)
}
