// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
)

// logWriter writes lines of the log, one after the other, on a goroutine that runs while there are lines. The handler of a logger
// is the program's own code: one that blocks holds up nothing but later lines, and Close no longer than its context; one that
// calls the session waits for nothing that waits for it; and a panic in it loses its line, not the program.
type logWriter struct {
	mu struct {
		sync.Mutex
		waiting []func()
		written chan struct{} // closed when no line is waiting or being written; nil while none is
	}
}

// add lets write be called after the lines before it.
func (l *logWriter) add(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = append(l.mu.waiting, write)
	if l.mu.written == nil {
		l.mu.written = make(chan struct{})
		go l.writeAll() // it ends under the lock under which it finds no line waiting
	}
}

func (l *logWriter) writeAll() {
	for {
		l.mu.Lock()
		if len(l.mu.waiting) == 0 {
			close(l.mu.written)
			l.mu.written = nil
			l.mu.Unlock()
			return
		}
		write := l.mu.waiting[0]
		l.mu.waiting = l.mu.waiting[1:]
		l.mu.Unlock()
		recovered(write)
	}
}

// recovered calls write, and ends a panic in it.
func recovered(write func()) {
	defer func() { _ = recover() }()
	write()
}

// await blocks until the lines that were added are written, or until ctx ends.
func (l *logWriter) await(ctx context.Context) {
	l.mu.Lock()
	written := l.mu.written
	l.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}
