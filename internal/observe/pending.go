// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
)

// pending counts what is not reported yet. A sync.WaitGroup would not do: Close may wait while a loss is counted, and waits no
// longer than its context.
type pending struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed when open is 0; nil while no goroutine waits for that
}

func (p *pending) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
}

func (p *pending) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open--; p.open == 0 && p.none != nil {
		close(p.none)
		p.none = nil
	}
}

// await blocks until nothing is pending, or until ctx ends.
func (p *pending) await(ctx context.Context) {
	p.mu.Lock()
	if p.open > 0 && p.none == nil {
		p.none = make(chan struct{})
	}
	none := p.none
	p.mu.Unlock()
	if none == nil {
		return
	}
	select {
	case <-none:
	case <-ctx.Done():
	}
}
