// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
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
	// lateSlack is for the pauses between attempts to connect, and between those of a quorum.
	lateSlack = 200 * time.Millisecond
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

// play makes a call, and returns how it ended and when.
func (c testedCall) play(t *testing.T, fault callFault, limited contextLimit) (ended string, took time.Duration) {
	t.Helper()
	return c.playOn(t, (*fixture).session, fault, limited)
}

// playOn is play with sessions that open opens.
func (c testedCall) playOn(t *testing.T, open openSession, fault callFault, limited contextLimit) (ended string, took time.Duration) {
	t.Helper()
	servers := 1
	if c.quorum {
		servers = 3
	}
	bubbleOf(t, servers, func(r *redlockServers) {
		cf := newCallFixture(r, open, fault)
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

func newCallFixture(r *redlockServers, open openSession, fault callFault) *callFixture {
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
	cf.s, cf.wires = r.processOf(open, quiet)
	if fault == expired { // the credentials are known to be right
		for _, s := range cf.s {
			cf.must(no(reentrant.New(s, "before").TryLock(context.Background())))
		}
	}
	return cf
}

// causeFault brings the fault about, on a majority of the servers.
func (c *callFixture) causeFault() {
	if c.wires[0].refuses.Load() { // there is no connection yet
		if c.fault != closed {
			each(c.wires, func(w *wire) { w.refuses.Store(false) })
		}
		time.Sleep(slack) // the pause after the first attempt
	}
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
		each(faulty, (*wire).refuse)
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
	for _, s := range c.s {
		_ = s.Close(locktest.Ended())
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

// reportsContext reports whether the call has a context, and returns its error.
func (c testedCall) reportsContext() bool {
	return c.class != unlocks && c.class != inner && c.class != guesses && c.class != leaves
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

// The same before the first connection, if the server is so from the start: calls end as in an outage.
func TestEveryCallEndsAsTheTableSaysBeforeTheFirstConnection(t *testing.T) {
	t.Parallel()
	for i, c := range calls() {
		if slices.Contains([]callClass{writes, stores, sets, parts, unlocks, inner, leaves}, c.class) || c.connected {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for j, r := range endings {
				if r.class != c.class || !c.connects(r.fault) || r.fault == expired {
					continue
				}
				for name, l := range limits {
					cell := r.ends
					switch {
					case name == "Never":
						cell = r.never
					case (name == "Deadline") != ((i+j)%2 == 0):
						continue
					}
					is, within := c.read(t, cell, l.ended)
					ended, took := c.playOn(t, (*fixture).lateSession, r.fault, l.limit)
					if ended != is || took > within+slack+lateSlack {
						t.Errorf("%s, %s: %q after %v, not %q within %v", r.fault, name, ended, took, is, within)
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
		if !c.reportsContext() {
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

// callClass is what calls have in common that end alike.
type callClass int

const (
	tries    callClass = iota // TryLock and similar calls: one try
	guesses                   // a TryAcquire that returns false for every error
	waits                     // Lock and similar calls: until the context ends
	requests                  // one question or change, without another try
	insists                   // steps of a latch, which are repeated
	listens                   // the wait for a round that does not open, and other calls that only their context ends
	writes                    // a term's value, until the term is lost
	stores                    // the outcome of a once, until the lease is lost or the context has ended
	sets                      // what a member of a group says of itself, until the server knows it
	parts                     // the Leave of a member that owns shards
	unlocks                   // after the lease began, with no context
	inner                     // the same of a lease beside another one of its hold, which sends nothing
	leaves                    // Close of a session that has a lease left
)

// callFault is what happens to the server, or to the session, before or in the midst of a call.
type callFault string

const (
	healthy    callFault = "Healthy"
	held       callFault = "Held"       // by another session
	frozen     callFault = "Frozen"     // takes connections, and says nothing
	connecting callFault = "Connecting" // the same, and the connection broke
	refusing   callFault = "Refusing"   // connections
	cut        callFault = "Cut"        // the connection breaks when the reply is due, and the next one works
	proxied    callFault = "Proxied"    // the reply is lost, says a proxy in words of its own, and the next one is not
	closed     callFault = "Closed"     // the session
	loading    callFault = "Loading"    // the words of a server that refuses for now
	full       callFault = "Full"       // so are these
	denied     callFault = "Denied"     // the words of a right that is missing
	broken     callFault = "Broken"     // the words of a script that this server can never run
	redirected callFault = "Redirected" // a node of a cluster redirects a client of one server
	expired    callFault = "Expired"    // the credentials, for 3 s; they were right before
	over       callFault = "Over"       // frozen for longer than the lease lasts
	minority   callFault = "Minority"   // one of three servers of a redlock is frozen
)

// expectedEnds is how the calls of a class end after a fault: without a context that ends, and with one that
// has a deadline in 100 ms or is cancelled then.
//
// A cell names all that errors.Is finds in the error, of all errors that the library and package
// context export. "ended" stands for the error of the caller's context and its cause, "free" for
// what the call returns if the lock is free, "error" for any other error, "blocks" for a call that
// has not returned after half a minute. A call ends at once unless the cell has a time.
type expectedEnds struct {
	class       callClass
	fault       callFault
	never, ends string
}

func of[T any](all ...T) []T { return all }

// endings are the rows for each class and each fault.
var endings = func() (all []expectedEnds) {
	for _, r := range endingRows {
		for _, class := range r.classes {
			for _, fault := range r.faults {
				all = append(all, expectedEnds{class, fault, r.never, r.ends})
			}
		}
	}
	return all
}()

var endingRows = []struct {
	classes     []callClass
	faults      []callFault
	never, ends string
}{
	{of(tries, requests, waits, insists, listens, sets), of(closed), "ErrClosed", "ErrClosed"},
	{of(tries, requests, waits, insists, listens, writes, sets), of(denied), "ErrDenied", "ErrDenied"},
	{of(tries, requests, waits, insists, listens, writes, stores, sets), of(broken, redirected), "ErrUnsupported", "ErrUnsupported"},

	{of(tries), of(healthy, minority), "nil", "nil"},
	{of(tries), of(held), "ErrHeld", "ErrHeld"},
	{of(requests), of(healthy, minority), "free", "free"},
	{of(requests), of(held), "nil", "nil"},
	{of(tries, requests), of(frozen, connecting), "ErrNoReply in 4s", "ended in 100ms"},
	{of(tries, requests), of(refusing, cut, proxied), "error", "error"},
	{of(tries, requests), of(loading, full), "ErrRefused", "ErrRefused"},
	{of(tries, requests), of(expired), "ErrDenied", "ErrDenied"},

	{of(guesses), of(healthy), "nil", "nil"},
	{of(guesses), of(frozen, connecting), "error in 4s", "error in 100ms"},
	{of(guesses), of(held, refusing, cut, proxied, closed, loading, full, denied, broken, redirected, expired), "error", "error"},

	{of(waits), of(held), "blocks", "ErrHeld ended in 100ms"},
	{of(waits), of(minority), "nil", "nil"},
	{of(waits), of(expired), "nil in 5s", "ErrDenied ended in 100ms"},
	{of(waits, insists, listens, sets), of(frozen, connecting, refusing), "blocks", "ended in 100ms"},
	{of(waits, insists, listens, sets), of(loading, full), "blocks", "ErrRefused ended in 100ms"},
	{of(waits, insists, writes, stores, sets, parts), of(healthy, proxied), "nil", "nil"},
	{of(waits, insists, writes, stores, sets, parts), of(cut), "nil in 3s", "nil in 100ms"},
	{of(insists, writes, stores, sets, parts), of(expired), "nil in 4s", "ErrDenied ended in 100ms"},

	{of(listens), of(healthy, cut, proxied), "blocks", "ended in 100ms"},
	{of(listens), of(expired), "blocks", "ErrDenied ended in 100ms"},

	// A term ends 5 s before its lease of 15 s does.
	{of(writes), of(frozen, connecting), "ErrLost ErrNoReply in 10s", "ended in 100ms"},
	{of(writes), of(refusing), "ErrLost in 10s", "ended in 100ms"},
	{of(writes, unlocks, inner), of(closed), "ErrLost ErrClosed", "ErrLost ErrClosed"},
	{of(writes), of(loading, full), "ErrLost ErrRefused in 10s", "ErrRefused ended in 100ms"},

	// A store is tried for a second after the lease of 30 s has ended. A call whose context ends returns at once: the store
	// is not its own.
	{of(stores), of(frozen, connecting), "ErrUnconfirmed ErrNoReply in 31s", "ended in 100ms"},
	{of(stores), of(refusing), "error in 31s", "ended in 100ms"},
	{of(stores), of(closed), "ErrStale ErrLost ErrClosed", "ErrStale ErrLost ErrClosed"},
	{of(stores), of(loading, full), "ErrRefused in 31s", "ErrRefused ended in 100ms"},
	{of(stores), of(denied), "ErrUnconfirmed ErrDenied in 31s", "ErrDenied ended in 100ms"},

	// A member that leaves gives up after a lease of 15 s without a reply, or at once if none can come. What it says of itself it says
	// again until the server replies, unless that can never help.
	{of(parts), of(frozen, connecting, refusing), "nil in 17s", "ended in 100ms"},
	{of(parts), of(loading, full), "nil in 17s", "ErrRefused ended in 100ms"},
	{of(parts), of(denied), "nil in 17s", "ErrDenied ended in 100ms"},
	{of(parts), of(closed, broken, redirected), "nil", "nil"},

	{of(unlocks), of(healthy, minority), "nil", "nil"},
	{of(unlocks), of(frozen, connecting), "ErrUnconfirmed ErrNoReply in 1s", "ErrUnconfirmed ErrNoReply in 1s"},
	{of(unlocks), of(refusing, cut, proxied), "ErrUnconfirmed", "ErrUnconfirmed"},
	{of(unlocks), of(loading), "ErrUnconfirmed ErrRefused", "ErrUnconfirmed ErrRefused"},
	{of(unlocks), of(denied, expired), "ErrUnconfirmed ErrDenied", "ErrUnconfirmed ErrDenied"},
	{of(unlocks), of(broken, redirected), "ErrUnconfirmed ErrUnsupported", "ErrUnconfirmed ErrUnsupported"},
	{of(unlocks, inner), of(over), "ErrLost", "ErrLost"},
	{of(inner), of(healthy, frozen, connecting, refusing, loading, denied, broken, redirected, expired), "nil", "nil"},

	// Without a context that ends Close waits for the close grace, 5 s, and a second for the
	// releases.
	{of(leaves), of(healthy), "error in 5s", "ended in 100ms"},
	{of(leaves), of(frozen, connecting, refusing, loading, denied, broken, redirected, expired), "error in 6s", "ended in 1100ms"},
}

// ownContext is a context that another package made: it ends with an error that package context does not know, and has a
// deadline that says nothing.
type ownContext struct {
	context.Context

	done  chan struct{}
	ended atomic.Bool
}

var errOwn = errors.New("an error of its own")

func (c *ownContext) Done() <-chan struct{} { return c.done }

func (c *ownContext) Err() error {
	if c.ended.Load() {
		return errOwn
	}
	return nil
}

func (*ownContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Hour), true }

func ownLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	c := &ownContext{Context: ctx, done: make(chan struct{})}
	timer := time.AfterFunc(soon, func() {
		c.ended.Store(true)
		close(c.done)
	})
	return c, func() { timer.Stop() }
}

// P10: a call ends when its caller's context ends, and not before, whatever the context says of its deadline. The error of a
// wait is that of the context, also if package context does not know it.
func TestEveryCallHeedsAContextOfAnotherPackage(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		if !c.reportsContext() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range endings {
				if r.class != c.class || !c.connects(r.fault) || r.fault != held && r.fault != frozen {
					continue
				}
				is, within := c.read(t, r.ends, "own")
				ended, took := c.play(t, r.fault, ownLimit)
				require.Equal(t, is, ended, r.fault)
				require.LessOrEqual(t, took, within+slack, r.fault)
			}
		})
	}
}
