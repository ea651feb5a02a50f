// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// fakeLease is a lease that the test ends.
type fakeLease struct {
	done chan struct{}

	mu       sync.Mutex
	err      error // set before done is closed
	unlocked bool
}

func newLease() *fakeLease { return &fakeLease{done: make(chan struct{})} }

func (l *fakeLease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = signalbox.ErrLost
	close(l.done)
}

func (l *fakeLease) Token() uint64         { return 1 }
func (l *fakeLease) Done() <-chan struct{} { return l.done }
func (l *fakeLease) Deadline() time.Time   { return time.Now().Add(time.Hour) }

func (l *fakeLease) Unlock() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlocked = true
	return l.err
}

func (l *fakeLease) isUnlocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unlocked
}

func (l *fakeLease) Err() error {
	select {
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	default:
		return nil
	}
}

// fakeProgram is a program that no signal ends. The test and the job use it, at times that only the bubble's clock orders.
type fakeProgram struct {
	exited chan struct{}

	mu struct {
		sync.Mutex
		left                  []survivor
		refusal               error // the error that forward and denied return
		kills                 int
		terminated, continued bool
	}
}

func (p *fakeProgram) exits() <-chan struct{}       { return p.exited }
func (p *fakeProgram) stops() <-chan syscall.Signal { return nil }
func (p *fakeProgram) code() int                    { return 9 }
func (p *fakeProgram) denied() error                { return p.refused() }
func (p *fakeProgram) forward(os.Signal) error      { return p.refused() }
func (p *fakeProgram) onStop(syscall.Signal) error  { return nil }
func (p *fakeProgram) closeTerminal()               {}

func (p *fakeProgram) refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.refusal
}

func (p *fakeProgram) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.terminated = true
}

func (p *fakeProgram) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.kills++
}

func (p *fakeProgram) kills() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.kills
}

func (p *fakeProgram) survivors() []survivor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mu.left)
}

func (p *fakeProgram) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return !p.mu.continued
	default:
		return false
	}
}

// lines is what the job prints.
type lineBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lineBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns what was printed since the last call.
func (l *lineBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// supervised is a job under way, in virtual time.
type supervised struct {
	*testing.T

	job     *job
	program *fakeProgram
	signals chan os.Signal
	output  *lineBuffer
	end     chan error
}

// supervise starts a job with a program that has this process left.
func supervise(t *testing.T, first *fakeLease, again func(context.Context) (lease, error), left ...survivor) *supervised {
	s := &supervised{
		T: t, program: &fakeProgram{exited: make(chan struct{})}, signals: make(chan os.Signal), output: new(lineBuffer), end: make(chan error, 1),
	}
	s.program.mu.left = left
	s.job = &job{title: `run "a"`, lease: first, reacquire: again, grace: 5 * time.Second, stderr: s.output}
	go func() { s.end <- s.job.supervise(t.Context(), s.program, s.signals) }()
	synctest.Wait()
	return s
}

// after lets time pass, and returns the lines that were printed since its last call: a job may print before the send of
// the signal that it prints about has returned.
func (s *supervised) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	return s.output.take()
}

func (s *supervised) code() int {
	s.program.mu.Lock()
	s.program.mu.left = nil
	s.program.mu.Unlock()
	close(s.program.exited)
	var decided *exitError
	require.ErrorAs(s, <-s.end, &decided)
	return decided.code
}

// A program that SIGKILL does not end, as one that waits for a disk, is reported once a minute. The lock is acquired again.
func TestProgramThatCannotBeEndedIsReportedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newLease(), newLease()
		var refused atomic.Bool
		s := supervise(t, first, func(ctx context.Context) (lease, error) {
			if !refused.Swap(true) {
				return nil, errors.New("the server is away")
			}
			select {
			case <-time.After(10 * time.Second): // another holder has it
				return second, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, survivor{pid: 7, name: "c\x1bp", uninterruptible: true})
		first.lose()
		require.Empty(t, s.after(5*time.Second-1), "the grace")
		require.Zero(t, s.program.kills())
		require.Empty(t, s.after(killTimeout))
		require.Equal(t, 1, s.program.kills())
		text := s.after(1)
		require.Contains(t, text, `cannot be ended: 7 "c\x1bp" (waits in the kernel, as for a disk or NFS); the lock is lost`)
		require.Equal(t, 1, strings.Count(text, "\n"))
		require.Equal(t, "signalbox: run \"a\": the lock is held again, until the program ends\n", s.after(30*time.Second))
		text = s.after(30 * time.Second)
		require.Contains(t, text, "the lock is held until they end")
		require.Equal(t, 1, strings.Count(text, "\n"))
		require.Equal(t, 1, strings.Count(s.after(time.Minute), "\n"))
		require.Equal(t, codeLost, s.code())
		require.True(t, second.isUnlocked())
	})
}

// The lock is acquired again each time it is lost, and not after the program has ended.
func TestLockOfAProgramThatCannotBeEndedIsAcquiredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newLease()
		var leases []*fakeLease
		s := supervise(t, first, func(ctx context.Context) (lease, error) {
			if len(leases) == 2 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			leases = append(leases, newLease())
			return leases[len(leases)-1], nil
		}, survivor{pid: 7, denied: true})
		first.lose()
		require.Contains(t, s.after(time.Second), "held again", "no grace ends what may not be signalled")
		leases[0].lose()
		require.Contains(t, s.after(time.Second), "held again")
		leases[1].lose()
		require.Empty(t, s.after(time.Second))
		require.Equal(t, codeLost, s.code())
	})
}

// A signal that the program does not get is reported, and the lock is held until it ends by itself.
func TestSignalThatIsRefusedIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newLease()
		s := supervise(t, first, nil)
		s.program.mu.Lock()
		s.program.mu.refusal = syscall.EPERM
		s.program.mu.Unlock()
		require.Contains(t, s.after(time.Second), "cannot be signalled (operation not permitted)")
		require.Empty(t, s.after(time.Hour), "it is said once")
		s.signals <- syscall.SIGTERM
		require.Contains(t, s.after(time.Second), "the program did not get the signal: operation not permitted")
		require.False(t, first.isUnlocked())
		require.Equal(t, 9, s.code())
		require.True(t, first.isUnlocked())
	})
}

// After a signal the rest of the group has the lock for --grace, and for as long as it lives if it may not be signalled.
func TestRestOfTheGroupKeepsTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newLease()
		s := supervise(t, first, nil, survivor{pid: 7, denied: true})
		s.program.mu.Lock()
		s.program.mu.continued = true
		s.program.mu.Unlock()
		s.signals <- syscall.SIGTERM
		close(s.program.exited)
		require.Empty(t, s.after(5*time.Second-1))
		require.Contains(t, s.after(2), "the lock is held until they end")
		require.Equal(t, 1, strings.Count(s.after(time.Minute), "\n"))
		require.False(t, first.isUnlocked())
		s.program.mu.Lock()
		s.program.mu.left[0].denied = false
		s.program.mu.Unlock()
		require.Contains(t, s.after(time.Minute), "continue: 7")
		require.True(t, first.isUnlocked())
		require.Error(t, <-s.end)
	})
}

// A program may say that it is ready before the call that started it has returned. Who reads that, and sends a signal, has it forwarded.
func TestAProgramThatIsReadyGetsEachSignal(t *testing.T) {
	t.Parallel()
	for range 100 {
		signals := newRelay(nil)
		forwarded := make(chan struct{})
		_, own, err := signals.begin(func() (*child, error) {
			ready := make(chan struct{})
			go func() {
				close(ready)
				signals.forward(syscall.SIGTERM)
				close(forwarded)
			}()
			<-ready
			runtime.Gosched()
			return new(child), nil
		})
		require.NoError(t, err)
		<-forwarded
		require.Len(t, own, 1)
		signals.close()
	}
}
