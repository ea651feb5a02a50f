// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// sentinels are all errors that the library exports, and those of package context.
var sentinels = map[string]error{
	"ErrHeld":          signalbox.ErrHeld,
	"ErrLost":          signalbox.ErrLost,
	"ErrReleased":      signalbox.ErrReleased,
	"ErrMaxHold":       signalbox.ErrMaxHold,
	"ErrNotHeld":       signalbox.ErrNotHeld,
	"ErrUnconfirmed":   signalbox.ErrUnconfirmed,
	"ErrClosed":        signalbox.ErrClosed,
	"ErrBadName":       signalbox.ErrBadName,
	"ErrBadOption":     signalbox.ErrBadOption,
	"ErrWrongKind":     signalbox.ErrWrongKind,
	"ErrUpgrade":       signalbox.ErrUpgrade,
	"ErrCapacity":      signalbox.ErrCapacity,
	"ErrRefused":       signalbox.ErrRefused,
	"ErrDenied":        signalbox.ErrDenied,
	"ErrNoReply":       signalbox.ErrNoReply,
	"ErrBusy":          signalbox.ErrBusy,
	"ErrNotReplicated": signalbox.ErrNotReplicated,
	"ErrUnsupported":   signalbox.ErrUnsupported,
	"ErrOldServer":     signalbox.ErrOldServer,
	"ErrRunning":       signalbox.ErrRunning,
	"ErrNoRound":       signalbox.ErrNoRound,
	"ErrRoundOver":     signalbox.ErrRoundOver,
	"ErrReset":         signalbox.ErrReset,
	"ErrRoundLost":     signalbox.ErrRoundLost,
	"ErrStale":         signalbox.ErrStale,
	"ErrTooLarge":      signalbox.ErrTooLarge,
	"DeadlineExceeded": context.DeadlineExceeded,
	"Canceled":         context.Canceled,
	"cause":            errCause,
	"own":              errOwn,
}

var errCause = errors.New("the request\nwas given up")

const (
	// soon is when a context ends: between two ticks of the timers, so that no request is sent at that very instant or, as
	// the time of an unlock later, when the last request is given up.
	soon  = 100*time.Millisecond + 300*time.Microsecond
	long  = 30 * time.Second      // after which a call blocks, and any lease here is over
	slack = 40 * time.Millisecond // of timers, and of pauses at random
)

// quiet drops what Close logs of leases that a test leaves.
var quiet = signalbox.WithLogger(slog.New(slog.DiscardHandler))

// callFixture is a call, the servers that it asks, and what happens to them.
type callFixture struct {
	*redlockServers

	s, other []*signalbox.Session // the sessions of the call, and of another process
	wires    []*wire              // the wires of s
	fault    callFault
	inside   bool            // the function of a once brings the fault about
	lease    signalbox.Lease // the lease with which the call began

	mu    sync.Mutex
	began time.Time // the fault, or the call
	words string    // the words with which the servers refuse scripts; "" for none
	late  bool      // the servers execute refused scripts all the same
}

// session returns the session of a call that asks one server.
func (c *callFixture) session() *signalbox.Session { return c.s[0] }

// play makes a call, and returns how it ended and when.
func (c testedCall) play(t *testing.T, fault callFault, limited contextLimit) (ended string, took time.Duration) {
	t.Helper()
	servers := 1
	if c.quorum {
		servers = 3
	}
	bubbleOf(t, servers, func(r *redlockServers) {
		cf := newCallFixture(r, fault)
		cf.inside = c.inside
		run := c.ready(cf)
		if fault == held {
			c.holds(cf)
		}
		synctest.Wait()
		ctx, cancel := limited(context.Background())
		defer cancel()
		cf.begins()
		done := make(chan error, 1)
		if !c.inside {
			cf.causeFault()
		}
		go func() { done <- run(ctx) }()
		var err error
		select {
		case err = <-done:
			took = cf.since()
			ended = found(err)
		case <-time.After(4 * long):
			ended = "blocks"
			cf.heal()
			err = <-done
		}
		if c.inside {
			time.Sleep(2 * long) // its function continues without it
		}
		if err != nil {
			require.NotContains(t, err.Error(), "\n", "an error is one line")
		}
	})
	return ended, took
}

func newCallFixture(r *redlockServers, fault callFault) *callFixture {
	cf := &callFixture{redlockServers: r, fault: fault}
	r.makeReady()
	for _, f := range r.servers {
		f.probe = time.Second
		f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			cf.mu.Lock()
			words, late := cf.words, cf.late
			cf.mu.Unlock()
			if strings.HasPrefix(words, "MOVED") && command == "HELLO" && len(args) == 0 {
				c.WriteRaw(helloOfCluster)
				return true
			}
			if words == "" || c.ClientName == runName || !strings.HasPrefix(command, "EVAL") {
				return false
			}
			if late {
				run(f.redis.Server(), append([]string{command}, args...))
			}
			c.WriteError(words)
			return true
		})
	}
	cf.other, _ = r.process(quiet)
	cf.s, cf.wires = r.process(quiet)
	if fault == expired { // the credentials are known to be right
		for _, s := range cf.s {
			cf.must(no(reentrant.New(s, "before").TryLock(context.Background())))
		}
	}
	return cf
}

// causeFault brings the fault about, on a majority of the servers.
func (c *callFixture) causeFault() {
	c.begins()
	faulty := c.wires[:len(c.wires)/2+1]
	say := func(words string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.words = words
	}
	switch c.fault {
	case frozen, over:
		each(faulty, (*wire).goSilent)
	case minority:
		c.wires[len(c.wires)-1].goSilent()
	case connecting:
		each(faulty, (*wire).goSilent)
		each(faulty, (*wire).cut)
	case refusing:
		each(faulty, func(w *wire) { w.refuses.Store(true) })
		each(faulty, (*wire).cut)
	case cut:
		each(faulty, func(w *wire) { w.swallowsReplies.Store(true) })
		go func() {
			time.Sleep(slack / 4)
			each(faulty, (*wire).heal)
		}()
	case proxied:
		c.late = true
		say("upstream failure")
		time.AfterFunc(slack/4, func() { say("") })
	case closed:
		if c.inside {
			go c.close()          // it waits for the function that calls this
			time.Sleep(slack / 4) // until the lease has ended here and at the server
		} else {
			c.close()
			c.begins()
		}
	case loading:
		say("LOADING server is loading the dataset in memory")
	case full:
		say("OOM command not allowed when used memory > 'maxmemory'.")
	case denied:
		say("ERR ACL failure in script: User limited has no permissions to run the 'time' command")
	case broken:
		say("ERR user_script:5: bad argument script: 0a1b, on @user_script:5.")
	case redirected:
		say("MOVED 3999 127.0.0.1:1")
	case expired:
		say("WRONGPASS invalid username-password pair or user is disabled.")
		time.AfterFunc(3*time.Second, func() { say("") })
	case healthy, held:
	}
	if c.fault == over {
		time.Sleep(2 * long)
		c.begins()
	}
	synctest.Wait()
}

// begins starts the time in which the call is to end.
func (c *callFixture) begins() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

func (c *callFixture) since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began)
}

func (c *callFixture) close() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range c.s {
		_ = s.Close(ended)
	}
}

func each(wires []*wire, do func(*wire)) {
	for _, w := range wires {
		do(w)
	}
}

// heal ends the fault, and every call.
func (c *callFixture) heal() {
	c.mu.Lock()
	c.words = ""
	c.mu.Unlock()
	each(c.wires, (*wire).heal)
	_ = c.lease.Unlock()
	c.close()
}

// found returns what errors.Is finds in err.
func found(err error) string {
	if err == nil {
		return "nil"
	}
	var all []string
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return "error"
	}
	return strings.Join(all, " ")
}

// contextLimit makes a context of a call.
type contextLimit = func(context.Context) (context.Context, context.CancelFunc)

// limits are how the context of a call ends, and what "ended" is then.
var limits = map[string]struct {
	limit contextLimit
	ended string
}{
	"Never": {func(ctx context.Context) (context.Context, context.CancelFunc) {
		return ctx, func() {}
	}, ""},
	"Deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, soon)
	}, "DeadlineExceeded"},
	"Cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(soon, func() { cancel(errCause) })
		return ctx, func() { timer.Stop(); cancel(nil) }
	}, "Canceled cause"},
}

// connects reports whether a fault can happen to the call.
func (c testedCall) connects(f callFault) bool {
	return (f != held || c.holds != nil) && (f != minority || c.quorum)
}

// read returns what a cell of the table demands.
func (c testedCall) read(t *testing.T, cell, ended string) (is string, within time.Duration) {
	t.Helper()
	text, at, timed := strings.Cut(cell, " in ")
	if timed {
		var err error
		within, err = time.ParseDuration(at)
		require.NoError(t, err)
	}
	text = strings.ReplaceAll(text, "ended", ended)
	if text == "free" {
		text = c.free
	}
	words := strings.Fields(text)
	slices.Sort(words)
	return strings.Join(words, " "), within
}

// Every call that asks a server ends as the table says, whatever happens to the server and however
// its context ends.
func TestEveryCallEndsAsTheTableSays(t *testing.T) {
	t.Parallel()
	for i, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cells, every := 0, redistest.Rounds(3, 1)
			for j, r := range endings {
				if r.class != c.class || !c.connects(r.fault) {
					continue
				}
				for name, l := range limits {
					cell := r.ends
					// Deadline and cancellation take turns. If the call ends before, they are the same case.
					atDeadline := (i+j)%2 == 0 || !strings.Contains(cell, "ended")
					switch {
					case name == "Never":
						cell = r.never
					case (name == "Deadline") != atDeadline:
						continue
					}
					if cells++; cells%every != 0 {
						continue
					}
					is, within := c.read(t, cell, l.ended)
					ended, took := c.play(t, r.fault, l.limit)
					where := fmt.Sprint(r.fault, ", ", name)
					if ended != is || took > within+slack {
						t.Errorf("%s: %q after %v, not %q within %v", where, ended, took, is, within)
					}
				}
			}
		})
	}
}

// A context that has ended before the call is the error of every call, and nothing is sent.
func TestEveryCallRefusesAnEndedContext(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		if c.class == unlocks || c.class == inner || c.class == guesses || c.class == leaves {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ended, took := c.play(t, healthy, func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				cancel(errCause)
				return ctx, func() {}
			})
			require.Equal(t, "Canceled cause", ended)
			require.Zero(t, took)
		})
	}
}

// faultsOf returns the faults that the table has for each class.
func faultsOf() map[callClass][]callFault {
	all := make(map[callClass][]callFault)
	for _, r := range endings {
		all[r.class] = append(all[r.class], r.fault)
	}
	return all
}

// No class is without the faults that every call can have.
func TestTheTableHasARowForEveryFault(t *testing.T) {
	t.Parallel()
	for class, faults := range faultsOf() {
		for _, f := range []callFault{healthy, frozen, connecting, refusing, loading, denied, broken, redirected} {
			require.Contains(t, faults, f, "class %d", class)
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(faults))), len(faults))
	}
	require.Len(t, slices.Collect(maps.Keys(faultsOf())), int(leaves)+1)
}
