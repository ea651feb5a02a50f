// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// keptFor is how long a list is kept up to date after a request.
const keptFor = 30 * time.Second

// sharedList is the list of the handlers of a session with one Prefix and Every. It runs while it is asked, and the session ends it.
type sharedList struct {
	list    *inspect.List
	session *session.Session // nil if the list fails without it
	running sync.WaitGroup   // the goroutines of the run

	mu struct {
		sync.Mutex
		refused error         // the reason why no run begins: the session is closed
		askedAt time.Time     // the time of the last request
		cancel  func()        // ends the run; nil if none is under way
		ended   chan struct{} // closed when the last run of the list has ended; nil before the first
	}
}

// listOf returns the list of the session for a prefix. Without a valid session it is one that fails.
func listOf(s *signalbox.Session, prefix string, every time.Duration) *sharedList {
	inside := sessionOf(s)
	create := func() *sharedList { return &sharedList{list: inspect.NewList(s, prefix, every), session: inside} }
	if inside == nil {
		return create()
	}
	return session.RegistryOf(inside, fmt.Sprintf("pages of %q every %v", prefix, every), create)
}

// snapshot returns the list, as fresh as the server allows.
func (l *sharedList) snapshot(ctx context.Context) inspect.Snapshot {
	if err := l.keep(); err != nil { //nolint:contextcheck // the list outlives the request
		return inspect.Snapshot{At: time.Now(), Err: err}
	}
	return l.list.Snapshot(ctx)
}

// keep lets the list be kept up to date for another keptFor.
func (l *sharedList) keep() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.refused != nil {
		return l.mu.refused
	}
	if l.session != nil {
		if err := l.session.Ready(); err != nil { // the list was made after Close, which refuses only what it finds
			return err
		}
	}
	l.mu.askedAt = time.Now()
	if l.mu.cancel == nil {
		l.runLocked()
	}
	return nil
}

// runLocked begins a run. The last one was cancelled, and it ends soon: a list is run by one goroutine at a time.
func (l *sharedList) runLocked() {
	if l.mu.ended != nil {
		<-l.mu.ended
		l.list.Invalidate() // snapshots wait for the new run
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l.mu.cancel, l.mu.ended = cancel, ended
	l.running.Go(func() { l.awaitIdle(ctx) })
	l.running.Go(func() { // ends at stopLocked, which awaitIdle and Refuse call
		defer close(ended)
		_ = l.list.Run(ctx) // Snapshot has the error
		cancel()            // it may have ended by itself: awaitIdle ends, too
	})
}

// awaitIdle ends the run keptFor after the last request.
func (l *sharedList) awaitIdle(ctx context.Context) {
	for left := keptFor; wire.Sleep(ctx, left, nil); {
		l.mu.Lock()
		left = time.Until(l.mu.askedAt.Add(keptFor))
		if left <= 0 && ctx.Err() == nil { // under the lock, so that no request comes in between
			l.stopLocked()
		}
		l.mu.Unlock()
	}
}

// stopLocked ends the run, if there is one.
func (l *sharedList) stopLocked() {
	if l.mu.cancel != nil {
		l.mu.cancel()
		l.mu.cancel = nil
	}
}

// Refuse implements session.KindRegistry.
func (l *sharedList) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.refused = err
	l.stopLocked()
}

// Close implements session.KindRegistry. No run begins after Refuse.
func (l *sharedList) Close() { l.running.Wait() }
