// SPDX-License-Identifier: Apache-2.0

// Package trouble is what somebody who waits for a lock knows of it, and what becomes of that in the error when the
// waiting ends.
package trouble

import (
	"context"
	"errors"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Trouble is what one waiter knows. Who waits writes it, and others may ask how it ended.
type Trouble struct {
	// Fails is how many tries failed in a row. For who waits alone.
	Fails int

	mu struct {
		sync.Mutex
		held bool  // the last answer was that somebody else has the lock
		last error // the last refusal or failure, nil after an answer
		poll Poll  // nil until there is one
	}
}

// Poll asks the server on behalf of a waiter that was told that the lock is held.
type Poll interface {
	// Trouble returns why the last poll was not answered, nil after an answer.
	Trouble() error
}

// Follow takes what polls for the waiter from here on: it knows more than the last answer.
func (t *Trouble) Follow(p Poll) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.poll = p
}

// Held takes the answer that somebody else has the lock.
func (t *Trouble) Held() {
	t.Fails = 0
	t.note(true, nil)
}

func (t *Trouble) note(held bool, last error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.held, t.mu.last = held, last
}

// Take takes what a call ended with, nil where that came to nothing, and answers the error to give up with, or nil.
func (t *Trouble) Take(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errs.ErrHeld):
		t.Held()
		return nil
	case ctx.Err() != nil:
		return t.Ended(ctx) // cut short: what was known before it still is
	case err != nil && wire.Judge(err) == wire.Final:
		return err
	}
	t.note(false, err)
	return nil
}

// Ended answers the error of a context that has ended, with what is known of the lock.
func (t *Trouble) Ended(ctx context.Context) error {
	err := errs.Ended(ctx)
	t.mu.Lock()
	held, last, poll := t.mu.held, t.mu.last, t.mu.poll
	t.mu.Unlock()
	if held && poll != nil {
		last = poll.Trouble() // a later failure, or no reply at all
	}
	switch {
	case last != nil:
		return errs.Join(err, last)
	case held:
		return errs.WhileHeld(err)
	}
	return err
}
