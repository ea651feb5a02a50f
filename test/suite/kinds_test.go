// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/shards"
)

// Kind is a row of the table: how a kind is acquired, and what a promise has to know of it. In most promises a process of this
// kind meets one of its rivals, which is of the same kind unless the row has another.
type Kind struct {
	Name  string
	New   Maker
	Rival Maker // makes locks of that name that exclude those of New; nil: New does

	// Several may hold a name at once, if all together take no more than there is. 0 stands for 1.
	Takes, RivalTakes, Of int

	Servers    int               // how many servers know nothing of each other and have the lock together; 0 for 1
	In         *signalbox.Layout // the layout of other clients; nil: the library's own
	HoldKey    string            // what follows the name in the key of holders, in the layout of other clients
	RoundTrips int               // the scripts of a Lock and an Unlock of a free lock
	Members    int               // the number of holds at servers of which a hold is one; 0 for 1
	InOrder    bool              // waiters are granted it in the order of their requests
	Whole      bool              // a hold that was granted without waiting has its whole lease from the start
	StepsDown  bool              // a lease ends a third of its length before its hold
	NoLease    bool              // a hold lasts until it is released
	Function   bool              // a function that runs has it, on a goroutine, and Unlock returns the result of that
	NoTry      bool              // there is no TryLock
	NoTokens   bool              // tokens are the server's clock, and not compared here
	Turnless   bool              // a session that is busy may keep others waiting
	Shortest   time.Duration     // the shortest lease, if that is longer than those of other kinds
	Fits       []string          // the promises of the table that fit it; nil: all but those that say Not
	Dead       time.Duration     // how long two dead waiters may delay others, beyond what all kinds promise
}

// Maker makes a lock.
type Maker func(s Sessions, name string, options ...signalbox.LockOption) Lock

// Sessions are those of a process, one for each server of its kind.
type Sessions []*signalbox.Session

// many is more than all readers of a test.
const many = 1000

// Kinds returns all kinds with holders.
func Kinds() []Kind {
	inRedisson, inSetNX := redisson.Layout(), setnx.Layout()
	return []Kind{
		{Name: "reentrant", New: of(locktest.Reentrant()), RoundTrips: 2},
		{Name: "fair", New: of(locktest.Fair()), RoundTrips: 2, InOrder: true},
		{Name: "reentrant beside fair", New: of(locktest.Reentrant()), Rival: of(locktest.Fair()), RoundTrips: 2},
		{Name: "rwlock writer", New: of(locktest.Writer()), RoundTrips: 2, InOrder: true},
		{
			Name: "rwlock reader beside writers", New: of(locktest.Reader()), Rival: of(locktest.Writer()),
			Takes: 1, RivalTakes: many, Of: many, RoundTrips: 2,
		},
		{
			Name: "rwlock writer beside readers", New: of(locktest.Writer()), Rival: of(locktest.Reader()),
			Takes: many, RivalTakes: 1, Of: many, RoundTrips: 2,
		},
		{
			Name: "rwlock downgraded", New: newDowngraded, Rival: of(locktest.Writer()),
			Takes: 1, RivalTakes: many, Of: many, RoundTrips: 3,
		},
		{Name: "semaphore", New: of(locktest.Permit()), RoundTrips: 2, InOrder: true},
		{Name: "two permits of three", New: permits(2, 3), Takes: 2, RivalTakes: 2, Of: 3, RoundTrips: 2, InOrder: true},
		{
			Name: "a permit beside all", New: permits(1, 3), Rival: permits(3, 3),
			Takes: 1, RivalTakes: 3, Of: 3, RoundTrips: 2, InOrder: true,
		},
		{
			Name: "all permits beside one", New: permits(3, 3), Rival: permits(1, 3),
			Takes: 3, RivalTakes: 1, Of: 3, RoundTrips: 2,
		},
		{Name: "election", New: newElection, RoundTrips: 3, InOrder: true, NoTry: true, Whole: true, StepsDown: true},
		{Name: "once", New: newOnce, RoundTrips: 4, NoTry: true, Function: true, Turnless: true, Whole: true},
		{Name: "multilock", New: newPair, Rival: newReversedPair, Members: 2, RoundTrips: 2},
		{Name: "multilock of unlike locks", New: newUnlike, Members: 3, RoundTrips: 6},
		{
			Name: "redisson", New: of(locktest.Reentrant()), In: &inRedisson,
			RoundTrips: 2, NoTokens: true, Turnless: true, Whole: true,
		},
		{
			Name: "redisson fair", New: of(locktest.Fair()), In: &inRedisson,
			RoundTrips: 2, NoTokens: true, InOrder: true, Whole: true, Dead: 11 * time.Minute,
		},
		{
			Name: "redisson writer", New: of(locktest.Writer()), In: &inRedisson,
			RoundTrips: 2, NoTokens: true, Turnless: true, Whole: true,
		},
		{
			Name: "redisson reader beside writers", New: of(locktest.Reader()), Rival: of(locktest.Writer()), In: &inRedisson,
			Takes: 1, RivalTakes: many, Of: many, RoundTrips: 2, NoTokens: true, Turnless: true, Whole: true,
		},
		{
			Name: "redisson writer beside readers", New: of(locktest.Writer()), Rival: of(locktest.Reader()), In: &inRedisson,
			Takes: many, RivalTakes: 1, Of: many, RoundTrips: 2, NoTokens: true, Turnless: true, Whole: true,
		},
		{
			Name: "redisson permits", New: permits(2, 3), Rival: permits(3, 3), In: &inRedisson, HoldKey: "timeout",
			Takes: 2, RivalTakes: 3, Of: 3, RoundTrips: 2, NoTokens: true, Turnless: true, Whole: true,
		},
		{Name: "redlock", New: newQuorum, Servers: 3, Members: 3, RoundTrips: 9},
		{
			Name: "shards", New: newShards, RoundTrips: 3, NoTry: true, Whole: true, StepsDown: true, Shortest: shards.MinLease,
			Fits: []string{
				"P1/holders never take more than there is", "P1/a crowd that gives up", "P2/a hold outlives an outage", "P2/the wall clock is set",
				"P2/fixed leases and longest holds end", "P4/a waiter that gives up leaves nothing",
				"P4/a call that gives up under each fault leaves nothing", "P4/close leaves nothing", "P4/close at any instant leaves nothing",
				"P5/each fault of a renewal", "P6/messages are lost", "P6/a release at any instant is noticed at once", "P6/a holder dies",
				"P6/waiters die", "P9/names are kept apart",
			},
		},
		{Name: "countdown", New: newLatch, RoundTrips: 2, NoLease: true, Turnless: true, Whole: true},
		{
			Name: "setnx", New: of(locktest.Reentrant()), In: &inSetNX,
			RoundTrips: 2, NoTokens: true, Turnless: true, Whole: true,
		},
	}
}

// options returns the options of locks of this kind, with leases of that length.
func (k Kind) options(lease time.Duration) []signalbox.LockOption {
	return k.on(signalbox.WithRenewedLease(lease))
}

// on returns the options of locks of this kind on some terms, which are not to contradict each other.
func (k Kind) on(terms ...signalbox.LockOption) []signalbox.LockOption {
	if k.In != nil {
		terms = append(terms, signalbox.WithLayout(*k.In))
	}
	return terms
}

// crowdKinds returns the kinds whose processes are killed and stopped: those whose holds have an end, also idle ones.
func crowdKinds() (all []Kind) {
	kept := func(s Sessions, name string, options ...signalbox.LockOption) Lock {
		return of(locktest.Reentrant())(s, name, append(options, signalbox.WithKeepWarm(time.Minute), signalbox.WithFirstLease(3*time.Second))...)
	}
	for _, k := range append(Kinds(), Kind{Name: "reentrant kept warm", New: kept}) {
		if k.withoutLease() == "" && k.longDead() == "" {
			all = append(all, k)
		}
	}
	return all
}

// rival returns the kind of those that this kind excludes.
func (k Kind) rival() Kind {
	if k.Rival != nil {
		k.New, k.Rival = k.Rival, k.New
		k.Takes, k.RivalTakes = k.RivalTakes, k.Takes
	}
	return k
}

// takes returns how much a holder takes.
func (k Kind) takes() int { return max(k.Takes, 1) }

// shares says whether several of this kind, or of its rival, can hold a name together.
func (k Kind) shares() bool { return k.Of > 1 && min(k.Takes, k.RivalTakes)*2 <= k.Of }

// excludesItself says whether two of this kind cannot hold a name together.
func (k Kind) excludesItself() bool { return k.takes()*2 > max(k.Of, 1) }

// survives returns how long an outage each hold with its whole lease survives.
func (k Kind) survives(life time.Duration) time.Duration {
	if k.StepsDown {
		return life/2 - life/3
	}
	return life / 2
}

// These are reasons why kinds do not make a promise. They depend on traits.

func (k Kind) withoutTokens() string {
	return k.because("its tokens are the server's clock", k.NoTokens)
}

func (k Kind) withoutOrder() string {
	return k.because("it has no queue, or some share it", !k.InOrder)
}

func (k Kind) withoutTurns() string {
	return k.because("sessions that try at once have no order", k.Turnless)
}

func (k Kind) wholeAtOnce() string { return k.because("its hold has its whole lease at once", k.Whole) }

func (k Kind) withoutError() string { return k.because("Unlock returns something else", k.Function) }

func (k Kind) ofOthers() string {
	return k.because("any key may be that of another client", k.In != nil)
}

func (k Kind) withoutLease() string {
	return k.because("its hold lasts until it is released", k.NoLease)
}

func (k Kind) waitsALease() string {
	return k.because("its servers grant nothing for a lease after they lost their data", k.Servers > 1)
}

func (k Kind) longDead() string {
	return k.because("its dead waiters delay others for minutes", k.Dead > time.Minute)
}

func (k Kind) notEntered() string {
	return k.because("its holder has no context that enters it again", (&Process{kind: k, Sessions: Sessions{nil}}).enterable("a") == nil)
}

func (k Kind) unforced() string {
	lock, _ := k.New(Sessions{nil}, "a").(leased)
	_, isForcible := lock.lock.(locktest.Forcible)
	return k.because("it has no ForceUnlock, or several holders", !isForcible)
}

func (Kind) because(why string, applies bool) string { //nolint:revive // a fact about the kind, not a switch
	if applies {
		return why
	}
	return ""
}
