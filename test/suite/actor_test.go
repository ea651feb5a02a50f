// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// The environment variables of an actor.
const (
	kindEnv  = "SUITE_KIND"
	rivalEnv = "SUITE_RIVAL" // not empty: it is a rival of that kind
	urlsEnv  = "SUITE_URLS"  // of its servers
	nameEnv  = "SUITE_NAME"  // of the lock
	seedEnv  = "SUITE_SEED"  // of what its users do
	storeEnv = "SUITE_STORE" // of the store that they update with their tokens, "" for none
	slowEnv  = "SUITE_SLOW"  // not empty: users take their time; "without tokens": and the store knows none
	badEnv   = "SUITE_BAD"   // not empty: the lock does not exclude, and the session is not closed
)

// actorLife is the lease of actors.
const actorLife = 2 * time.Second

// users is how many goroutines of an actor use the lock.
const users = 2

// act is a process of a crowd. It acquires a lock and releases it, again and again, until its input ends, and prints what its users
// know of that. Its wall clock is wrong.
func act(stdin io.Reader, stdout io.Writer) {
	seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	must(err)
	timers.Skew(chance{newDice(seed, users)}.below(4*time.Hour) - 2*time.Hour)
	all := append(crowdKinds(), Kinds()...)
	k := all[slices.IndexFunc(all, func(k Kind) bool { return k.Name == os.Getenv(kindEnv) })]
	if os.Getenv(rivalEnv) != "" {
		k = k.rival()
	}
	var sessions Sessions
	for url := range strings.FieldsSeq(os.Getenv(urlsEnv)) {
		s, err := signalbox.Dial(context.Background(), url, signalbox.WithLazyConnect()) // another incident may keep the server away
		must(err)
		sessions = append(sessions, s)
	}
	fmt.Fprintln(stdout, began)
	over := make(chan struct{})
	go func() { // ends with its input
		_, _ = io.Copy(io.Discard, stdin)
		close(over)
	}()
	lock := k.New(sessions, os.Getenv(nameEnv), k.options(max(actorLife, k.Shortest))...)
	isBad := os.Getenv(badEnv) != ""
	if isBad {
		lock = &badLock{good: lock}
	}
	shared := newStore(os.Getenv(storeEnv), os.Getenv(nameEnv))
	var group sync.WaitGroup
	for n := range users {
		u := user{n, lock, shared, chance{newDice(seed, uint64(n))}, stdout}
		group.Go(func() { u.use(over) })
	}
	group.Wait()
	shared.close()
	patience := redistest.Patience
	for _, s := range sessions {
		if isBad {
			patience = 0
			continue
		}
		// Without a deadline it would give up after some seconds what the last fault of another incident delays.
		ctx, cancel := context.WithTimeout(context.Background(), redistest.WaitLimit)
		must(s.Close(ctx))
		cancel()
	}
	left := 0
	isOver := func() bool {
		left = libraryGoroutines()
		return left == 0
	}
	redistest.PollUntil(patience, isOver)
	fmt.Fprintln(stdout, note, "goroutines", left)
}

// badLock grants each twentieth request at once, whoever has the lock, with a token that falls.
type badLock struct {
	good  Lock
	calls atomic.Int64
}

func (l *badLock) Lock(ctx context.Context) (Hold, error) {
	if l.calls.Add(1)%20 == 0 {
		return badHold{}, nil
	}
	return l.good.Lock(ctx)
}

func (l *badLock) TryLock(ctx context.Context) (Hold, error) { return l.good.TryLock(ctx) }

type badHold struct{ Hold }

func (badHold) Token() uint64 { return 1 }
func (badHold) Err() error    { return nil }
func (badHold) Unlock() error { return nil }

// note begins a line that is no action: it has a name and a number.
const note = "#"

// libraryGoroutines returns how many goroutines of this process the library, or a client of it, has begun.
func libraryGoroutines() (n int) {
	const library = "github.com/signalbox-go/signalbox/"
	stacks := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		_, by, _ := strings.Cut(stack, "created by ")
		isTest := strings.HasPrefix(by, library+"test/") || strings.HasPrefix(by, library+"internal/testing/")
		if (strings.HasPrefix(by, library) || strings.HasPrefix(by, "github.com/redis/rueidis")) && !isTest {
			n++
		}
	}
	return n
}

// began is the first line of an actor. One that is stopped in the midst of a Dial fails.
const began = "began"

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// user is a goroutine of an actor that uses the lock.
type user struct {
	number int
	lock   Lock
	store  *store
	chance
	stdout io.Writer
}

// use acquires the lock and releases it until the process ends. It holds it for milliseconds, and sometimes for longer than a lease.
func (u user) use(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(u.below(20 * time.Millisecond)): //nolint:forbidigo // users come when they like
		}
		from := now()
		ctx, cancel := whileRunning()
		h, err := u.lock.Lock(ctx)
		cancel()
		if errors.Is(err, signalbox.ErrUnconfirmed) { // of a latch: a round may have begun and be over
			fmt.Fprintln(u.stdout, note, "unconfirmed", from)
			continue
		}
		must(err)
		say := func(what verb, from, to int64) { fmt.Fprintln(u.stdout, what, u.number, h.Token(), from, to) }
		say(took, from, now())
		read := u.store.read(h.Token())
		good, told, has := from, int64(0), u.below(8*time.Millisecond)
		if u.IntN(200) == 0 {
			has = actorLife * 3 / 2
		}
		if os.Getenv(slowEnv) != "" {
			has = 100 * time.Millisecond
		}
		for ends := now() + int64(has); ; time.Sleep(time.Millisecond) { //nolint:forbidigo // it works, and checks its lease
			at := now()
			if h.Err() != nil {
				break
			}
			good = at // the lease was good later, and so at that time
			if isOver := at >= ends; isOver || at-told > int64(100*time.Millisecond) {
				say(had, good, good) // for the case that it is killed
				if told = at; isOver {
					break
				}
			}
		}
		u.store.write(read, h.Token()) // whatever became of the lease: the store knows better
		from = now()
		switch err := h.Unlock(); {
		case err == nil:
			say(gave, from, now())
		case errors.Is(err, signalbox.ErrUnconfirmed):
			fmt.Fprintln(u.stdout, note, "unconfirmed", from)
			fallthrough
		case errors.Is(err, signalbox.ErrLost):
			say(lost, good, now()+int64(aftermath))
		default:
			must(err)
		}
	}
}

// now is a time that all processes of a machine have in common.
func now() int64 { return time.Now().UnixNano() }

// aftermath is how long a hold may last at the server whose holder died, or got no reply to its Unlock: longer than its lease, and than
// what a queue grants to the dead.
const aftermath = 2 * redistest.Patience

// A verb is what happened to the hold of a user.
type verb string

const (
	took verb = "took" // it was acquired, between two times
	had  verb = "had"  // it was not over yet
	gave verb = "gave" // it was released
	lost verb = "lost" // it was over before the second time, and maybe before this user noticed
)

// action is what a user said.
type action struct {
	verb     verb
	who      int // a number among all users of the crowd
	rival    bool
	token    uint64
	from, to int64
}

// actionsOf returns what the actor of this number said, and a lost for each hold that was not over when it died.
func actionsOf(actor int, rival bool, said []string) (all []action, err error) {
	var open [users]*action
	for _, line := range said {
		if strings.HasPrefix(line, note) {
			continue
		}
		a := action{rival: rival}
		if _, err := fmt.Sscan(line, &a.verb, &a.who, &a.token, &a.from, &a.to); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		user := a.who
		a.who += users * actor
		switch a.verb {
		case had:
			open[user].from = a.from
			continue
		case took:
			open[user] = &action{lost, a.who, rival, a.token, a.from, now() + int64(aftermath)}
		default:
			open[user] = nil
		}
		all = append(all, a)
	}
	for _, a := range open {
		if a != nil {
			all = append(all, *a)
		}
	}
	return all, nil
}
