// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
)

// pendingReports counts the losses that are not reported yet. A sync.WaitGroup would not do: Close may wait while a loss is
// counted, and waits no longer than its context.
type pendingReports struct {
	mu      sync.Mutex
	count   int
	drained chan struct{} // closed when count is 0; nil while no goroutine waits for that
}

func (p *pendingReports) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
}

func (p *pendingReports) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count--; p.count == 0 && p.drained != nil {
		close(p.drained)
		p.drained = nil
	}
}

// await blocks until nothing is pending, or until ctx ends.
func (p *pendingReports) await(ctx context.Context) {
	p.mu.Lock()
	if p.count > 0 && p.drained == nil {
		p.drained = make(chan struct{})
	}
	drained := p.drained
	p.mu.Unlock()
	if drained == nil {
		return
	}
	select {
	case <-drained:
	case <-ctx.Done():
	}
}
