// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// forced is one hold that somebody takes by force through a link that fails.
type forced struct {
	*world

	name  string
	link  link
	lease signalbox.Lease
}

func (w *world) forced(name string, through link) (*forced, error) {
	lease, err := w.kind.New(w.holder, name).Lock(context.Background())
	return &forced{w, name, through, lease}, err
}

// force takes the lock from whoever has it.
func (w *world) force(ctx context.Context, s *signalbox.Session, name string) error {
	lock, has := w.kind.New(s, name).(interface {
		ForceUnlock(ctx context.Context) error
	})
	if !has {
		return errors.New("a lock without ForceUnlock")
	}
	return lock.ForceUnlock(ctx)
}

// after says what is wrong with what a ForceUnlock left behind that answered err, or nil. Whatever
// it answered, it may be repeated, touches no other hold, and the holder knows.
func (f *forced) after(kind redistest.Kind, err error) error {
	free := f.view.Free(f.name)
	switch {
	case err == nil && !free:
		return errors.New("it answered nil, and the lock is held")
	case !free:
		if again := f.force(context.Background(), f.other, f.name); again != nil && !errors.Is(again, signalbox.ErrNotHeld) {
			return fmt.Errorf("once more: %w", again)
		}
	}
	if !redistest.Became(redistest.Patience, func() bool { return f.lease.Err() != nil }) {
		return errors.New("the holder was not told")
	}
	next, err := f.kind.rival.New(f.other, f.name).Lock(context.Background())
	if err != nil {
		return err
	}
	if next.Token() <= f.lease.Token() {
		return fmt.Errorf("the token fell from %d to %d", f.lease.Token(), next.Token())
	}
	// What was delayed arrives, and finds a hold that it was not meant for.
	if kind == redistest.DelayRequest && !redistest.Became(settled, func() bool { return f.link.proxy.Replies() >= f.link.proxy.Requests() }) {
		return errors.New("the delayed request never arrived")
	}
	if err := f.valid(f.name, next); err != nil {
		return fmt.Errorf("the next holder: %w", err)
	}
	return locktest.Confirmed(next.Unlock())
}

// P5: a ForceUnlock whose order is struck looks whether it was executed, and answers nil when the hold
// is gone.
func TestForceUnlockWhoseReplyIsLostIsDone(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client gives a silent connection up after a second")
	eachForced(t, loseForces)
}

func loseForces(t *testing.T, w *world) {
	t.Helper()
	kinds := redistest.Kinds()
	links := w.links(t, len(kinds), locktest.Runs(w.kind.seize[1]))
	locktest.Together(t, len(kinds), func(i int) error {
		f, err := w.forced(fmt.Sprint("force/", kinds[i]), links[i])
		if err != nil {
			return err
		}
		armed := f.link.proxy.Arm(redistest.Fault{Kind: kinds[i], Delay: long})
		err = f.force(locktest.Context(t), f.link.session, f.name)
		switch {
		case err != nil:
			return fmt.Errorf("%v: %w", kinds[i], err)
		case !redistest.Became(redistest.Patience, armed.HasFired):
			return errors.New("not struck")
		}
		if err := f.after(kinds[i], nil); err != nil {
			return fmt.Errorf("%v: %w", kinds[i], err)
		}
		return nil
	})
	w.view.NoImmortals(t)
}

// P5: one whose question or order is struck, or that is cancelled in that moment, may be repeated.
func TestForceUnlockThatFailedMayBeRepeated(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client gives a silent connection up after a second")
	eachForced(t, cancelForces)
}

func cancelForces(t *testing.T, w *world) {
	t.Helper()
	kinds, steps := redistest.Kinds(), w.kind.seize
	all := locktest.Runs(steps...)
	links := w.links(t, len(kinds)*len(steps), all)
	locktest.Together(t, len(links), func(i int) error {
		kind, step := kinds[i/len(steps)], i%len(steps)
		f, err := w.forced(fmt.Sprint("repeat/", kind, step), links[i])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(locktest.Context(t))
		defer cancel()
		f.link.proxy.OnRequest(func(n int, _ []string) {
			if n == step+1 {
				cancel()
			}
		})
		f.link.proxy.Arm(redistest.Fault{Kind: kind, At: step + 1, Delay: 3 * short})
		begun := time.Now()
		err = f.force(ctx, f.link.session, f.name)
		if took := time.Since(begun); took > redistest.Patience/2 {
			return fmt.Errorf("%v: it took %v to be cancelled", kind, took)
		}
		if err := f.after(kind, err); err != nil {
			return fmt.Errorf("%v at %s: %w", kind, steps[step].Name, err)
		}
		return nil
	})
	w.view.NoImmortals(t)
}
