// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// UnlockPatience is how long Unlock waits for the server, unless a test sets another time in its session.
const UnlockPatience = time.Second

// The shortest and the longest pause between tries while the server refuses or is away.
const firstPause, lastPause = 5 * time.Millisecond, time.Second

// BackOffPause returns for how long to wait before the next try after so many that failed in a row. Half of it is random:
// callers that an outage struck together need not come back together.
func BackOffPause(fails int) time.Duration {
	pause := min(firstPause<<min(fails, 10), lastPause)
	return pause/2 + rand.N(pause/2)
}

// BackOff waits before the next try, after so many that failed in a row. It returns early if wake is sent to or closed, or if
// ctx ends.
func (s *Session) BackOff(ctx context.Context, fails int, wake <-chan struct{}) {
	s.Sleep(ctx, BackOffPause(fails), wake)
}

// Sleep waits for d. It returns early if wake is sent to or closed, or if ctx ends.
func (s *Session) Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	patience := s.Patient(d)
	defer patience.End()
	select {
	case <-patience.Done():
	case <-wake:
	case <-ctx.Done():
	}
}

// Patience is a context that ends after a while, by the session's timers. It needs no timer of the operating
// system and, mostly, no allocation for a release that has its reply in time.
//
// A process without a processor, because it is throttled or its machine is suspended, has not been waiting
// meanwhile, and the reply may lie in its socket. So patience that ends late continues for as long as it was
// late, and for at most maxGrace.
type Patience struct {
	session *Session
	entry   timers.Timer
	limit   time.Duration // the duration that the patience was made for
	due     time.Duration // monotonic; written before the entry is scheduled, by the goroutine that schedules it
	done    chan struct{}
	over    atomic.Bool
}

// A patience that is late by at most maxLateness is not extended: a busy machine is late by as much.
const maxLateness, maxGrace = 50 * time.Millisecond, time.Second

func newPatience(s *Session) *Patience {
	p := &Patience{session: s, done: make(chan struct{})}
	p.entry.Init(p)
	return p
}

// Patient returns a context that ends after d. End it with End.
func (s *Session) Patient(d time.Duration) *Patience {
	p := s.patiencePool.Get().(*Patience) //nolint:errcheck,forcetypeassert // nothing else is ever put
	p.limit = d
	p.wait(timers.Mono(), d)
	return p
}

// PatientUnlock returns a context for the release of a hold that lasts for left: it ends when the hold does,
// or after UnlockPatience.
func (s *Session) PatientUnlock(left time.Duration) *Patience {
	return s.Patient(min(s.UnlockPatience, left))
}

func (p *Patience) wait(now, d time.Duration) {
	p.due = now + d
	p.session.Timers.Schedule(&p.entry, d)
}

// End returns the context to the pool; it must not be used any more. A patience that is over, or may be
// about to be, is not pooled.
func (p *Patience) End() {
	if p.session.Timers.Cancel(&p.entry) {
		p.session.patiencePool.Put(p)
	}
}

// Fire implements timers.Firer. After wait, Fire must not use the patience any more: End may have returned it to the pool.
func (p *Patience) Fire() {
	now := timers.Mono()
	switch late := now - p.due; {
	case late > maxLateness:
		p.wait(now, min(late, maxGrace))
		return
	case late < 0: // the timers count the time in which the host was suspended
		p.wait(now, -late)
		return
	}
	p.over.Store(true)
	close(p.done)
}

// Deadline implements context.Context: none is shown, see package wire.
func (*Patience) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (p *Patience) Done() <-chan struct{} { return p.done }

// Err implements context.Context. The error is no context's, since the caller's own has not ended.
func (p *Patience) Err() error {
	if p.over.Load() {
		return errs.NoReply(p.limit)
	}
	return nil
}

// Value implements context.Context.
func (*Patience) Value(any) any { return nil }

// RepeatUntilReply repeats a step until the server replies to it, until waiting cannot help, or until ctx or the
// session ends. refused is closed when the session refuses work: no timer may fire after that. The step must
// be repeatable, or its error ErrUnconfirmed.
func (s *Session) RepeatUntilReply(ctx context.Context, refused <-chan struct{}, step func() error) error {
	var last error // the error of the step before
	if err := s.AwaitConnection(ctx); err != nil {
		return err
	}
	for fails := 0; ; fails++ {
		if err := s.Ready(); err != nil {
			return errs.Join(err, last)
		}
		if ctx.Err() != nil {
			return errs.Join(errs.Ended(ctx), last)
		}
		err := step()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errs.ErrUnconfirmed):
			return errs.Join(err, errs.Ended(ctx))
		case ctx.Err() != nil:
			return errs.Join(errs.Ended(ctx), last) // the step was cut short: the error before it is still true
		case wire.Judge(err) == wire.Final:
			return err
		}
		last = err
		s.BackOff(ctx, fails, refused)
	}
}
