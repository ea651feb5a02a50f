// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/inspect"
)

// snapshot is the list that all requests share. It is read anew when it is older than fresh, by the request that
// finds it so; requests that come meanwhile wait for that one. So any number of readers cost the server one list at a
// time.
type snapshot struct {
	read  func(ctx context.Context) ([]inspect.Entry, error)
	fresh time.Duration

	mu   sync.Mutex // guards last; held while the list is read
	last state
}

// state is a list, and how it was read. It is never written to.
type state struct {
	entries []inspect.Entry
	err     error // why some are missing, or all
	at      time.Time
	took    time.Duration
}

// now returns a list that is no older than fresh.
func (s *snapshot) now(ctx context.Context) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.at.IsZero() && time.Since(s.last.at) < s.fresh {
		return s.last
	}
	// A reader that leaves must not spoil the list for the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollPatience)
	defer cancel()
	begun := time.Now()
	entries, err := s.read(ctx)
	s.last = state{entries, err, time.Now(), time.Since(begun)}
	return s.last
}

// forget makes the next request read the list anew.
func (s *snapshot) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = state{}
}
