// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
)

// sharedList is the list that all requests share, so that any number of readers cost the server no more than one.
type sharedList struct {
	snapshot func(ctx context.Context) inspect.Snapshot
	expire   func() // nil if nothing can be broken
}

// listState is the content of a list at one moment. It is not changed.
type listState struct {
	inspect.Snapshot

	entries []inspect.Entry
	err     error // the reason why entries are missing, or nil
	at      time.Time
}

// read returns the list, as fresh as the server allows.
func (s *sharedList) read(ctx context.Context) listState {
	now := s.snapshot(ctx)
	return listState{now, now.Entries, now.Err, now.At}
}

// expireAll makes the next request wait until the names are read anew.
func (s *sharedList) expireAll() {
	if s.expire != nil {
		s.expire()
	}
}

// follow keeps a list up to date until the command ends. stop waits for that.
func follow(ctx context.Context, session *signalbox.Session, prefix string, every time.Duration) (l *inspect.List, stop func()) {
	l = inspect.NewList(session, prefix, every)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends at stop
		defer close(ended)
		_ = l.Run(ctx) // Snapshot has the error
	}()
	return l, func() {
		cancel()
		<-ended
	}
}
