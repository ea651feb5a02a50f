// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// verb is what a session asks of a lock. A walk is written in verbs and knows no script: which
// script serves a verb, and what its reply means, is the business of a lockKind.
type verb = string

const (
	tries        verb = "try"         // acquire now or not at all
	enters       verb = "enter"       // acquire, or take a ticket
	polls        verb = "poll"        // what became of the attempts of a session that waits
	leaves       verb = "leave"       // release, or give the ticket up
	renews       verb = "renew"       // make the lease longer
	withdraws    verb = "withdraw"    // undo an acquire of unknown outcome
	forces       verb = "force"       // take it from a hold of another session
	drops        verb = "drop"        // release by one key alone
	heartbeats   verb = "heartbeat"   // a heartbeat alone
	yields       verb = "yield"       // ask whether the hold may be handed over further
	requeues     verb = "requeue"     // release, and take a ticket for another attempt of the session
	acquiresMany verb = "acquireMany" // try, together with other locks
	releasesMany verb = "releaseMany" // release, together with other locks
	frees        verb = "free"        // release, if the key is as the grant wrote it
	shares       verb = "share"       // ask whether a reader may share its hold
	downgrades   verb = "downgrade"   // make a writer a reader
	splits       verb = "split"       // release a part of the permits
	resizes      verb = "resize"      // set how many permits there are
	fences       verb = "fence"       // keep a token, so that later ones are greater
	heals        verb = "heal"        // ask since when the server has its data, which begins the epoch
	describes    verb = "describe"    // its holder and its waiters
)

// lockKind is a kind of lock in a walk: an adapter from verbs to scripts. A release that replaces
// scripts replaces these.
type lockKind interface {
	// letter returns the kind as other kinds of lock report it.
	letter() string
	// keys returns the keys of the name, the one with the floor of the tokens first. A walk may
	// lose any of them.
	keys() []string
	// verbs returns what sessions do, each as often as it is likely.
	verbs() []verb
	// fresh returns a new attempt of a session.
	fresh(session string) *attempt
	// newcomer returns a new attempt that gets the lock if it is free.
	newcomer(session string) *attempt
	// requestOf returns the request for a verb, or nil if it makes no sense for this attempt.
	requestOf(v verb, a *attempt) *request
	// probes returns requests of a newcomer, of all the scripts that may meet the keys.
	probes(a *attempt) []*request
}

// attempt is one try of a session to get a lock, and what the session believes of it.
type attempt struct {
	kind    lockKind
	session string
	hold    string // the name of the hold, in the words of its kind
	side    string // "" excludes all others, reads goes with readers, and permit with other permits
	weight  int    // how many permits
	lease   int64  // how long the hold is to last

	since  int64 // the true time that its lease counts from
	until  int64 // the true time until which the session may believe that it has the lock
	stamp  string
	issued int64 // the true time at which it was granted first, 0 if it never was
	origin int64 // the true time at which its permits were granted first, to a hold that it is a part of
	ended  bool  // the session is done with it
	blocks bool  // the hold owns the tokens behind the first one too
}

// keep returns how long the sender of a call keeps the floor of an idle name, in milliseconds:
// sessions differ.
func (w *walk) keep() int { return []int{1000, 60_000, 86_400_000}[w.IntN(3)] }

// permit is the side of a hold of permits.
const permit = "permit"

// request is a verb as it is sent: the same bytes whenever, and however often, it runs.
type request struct {
	verb   verb
	who    *attempt // nil if it is for no attempt
	old    *attempt // the other attempt that the request ends, or nil
	script *scripts.Script
	keys   []string
	args   []any
	sent   int64 // the true time at which it was sent first
	life   int64 // the lease that it requests, from sent on
	read   func(r *request, reply any) outcome
}

func (r *request) String() string {
	who := ""
	if r.who != nil {
		who = r.who.hold
	}
	return fmt.Sprintf("%s %s by %s", r.verb, who, r.script.Name)
}

// outcome is what a reply means, in the terms of the verbs.
type outcome struct {
	has     []grant  // what has the lock by this reply
	lost    bool     // the attempt has it no more
	missing []string // holds that were polled for, and neither wait nor have the lock
	more    bool     // a poll is due at once
	kind    string   // the name belongs to this other kind of lock
	taken   bool     // a force found the hold and took the lock from it
	unknown bool     // the reply has no defined meaning
}

// grant is a lock that an attempt has: what a reply or a message says.
type grant struct {
	hold  string
	stamp string
	since int64 // the true time that its lease counts from, 0 if that is not known
	life  int64
}

// window is how long a request may take effect, and waitingLife what a heartbeat is good for.
const window, waitingLife int64 = 3 * second, 3 * second

// leases are what holds ask for; the longest is what a walk waits for in its end.
var leases = []int64{second, 3 * second, 30 * second}

const longestLease = 30 * second

// notAfter is the stamp until which a request that is sent now takes effect.
func (w *walk) notAfter() string { return digits(w.clock + window) }

// request returns one that is sent now.
func (w *walk) request(v verb, who *attempt, read func(*request, any) outcome, script *scripts.Script, keys []string, args ...any) *request {
	return &request{verb: v, who: who, script: script, keys: keys, args: args, sent: w.now, read: read}
}

// gives says for how long the attempt has the lock by this request.
func (r *request) gives(life int64) *request {
	r.life = life
	return r
}

// heartbeat returns the number of a heartbeat that is sent now.
func (w *walk) heartbeat() string {
	w.hasHeartbeat++
	number := heartbeatNumber(w.hasHeartbeat)
	w.heartbeatAt[number] = w.now
	return number
}

// code returns the first element of a reply that is a list, and the list. A stamp that is the whole reply stands for a list
// of Done and two stamps.
func code(reply any) (wire.Code, []any) {
	list, isList := reply.([]any)
	if !isList {
		n, _ := reply.(int64)
		if n >= 1<<40 {
			return wire.Done, []any{int64(wire.Done), n, n}
		}
		return wire.Code(n), nil
	}
	n, _ := list[0].(int64)
	return wire.Code(n), list
}

// text returns an element of a reply as a text.
func text(list []any, i int) string {
	if i >= len(list) {
		return ""
	}
	return fmt.Sprint(list[i])
}

// grantsIn returns the grants of a text of a session's grants: attempt (19), stamp (16) and number
// (20) each.
func (w *walk) grantsIn(session, said string) (all []grant) {
	w.Helper()
	for ; said != ""; said = said[55:] {
		if len(said) < 55 {
			w.fail("a grant is cut short: %q", said)
		}
		all = append(all, grant{session + said[:19], said[19:35], w.heartbeatAt[said[35:55]], waitingLife})
	}
	return all
}

// acquired reads the replies that begin as those of an acquire do.
func acquired(r *request, reply any) outcome {
	if stamp, isBare := reply.(string); isBare {
		return outcome{has: []grant{{r.who.hold, stamp, r.sent, r.life}}}
	}
	n, list := code(reply)
	switch n {
	case wire.Done:
		return outcome{has: []grant{{r.who.hold, text(list, 1), r.sent, r.life}}}
	case wire.NotDone:
		return outcome{more: len(list) == 4 && list[2] == int64(1)}
	case wire.Foreign:
		return outcome{kind: text(list, 1)}
	case wire.Late, wire.NeedsQueue, wire.TooFew, wire.TooYoung:
		return outcome{}
	default:
		return outcome{unknown: true}
	}
}

// lengthened reads the replies of a renewal.
func lengthened(r *request, reply any) outcome {
	switch n, _ := code(reply); n {
	case wire.Done, wire.Marked:
		return outcome{has: []grant{{r.who.hold, "", r.sent, r.life}}}
	case wire.NotDone:
		return outcome{lost: true}
	default:
		return outcome{unknown: true}
	}
}

// nothing reads replies that change no belief.
func nothing(*request, any) outcome { return outcome{} }

// holdName is the name of the n-th hold of a session.
func holdName(session string, n int) string { return session + fmt.Sprintf("%019d", n) }

// forced reads the replies of a force.
func forced(_ *request, reply any) outcome {
	n, _ := code(reply)
	return outcome{taken: n == wire.Done}
}

// left reads the replies of those who leave, which report grants of the same session.
func (w *walk) left(r *request, reply any) outcome {
	n, list := code(reply)
	if n >= wire.Done && len(list) > 2 {
		return outcome{has: w.grantsIn(r.who.session, text(list, 2)), more: text(list, 3) == "1"}
	}
	return outcome{}
}

// polled reads the replies of a poll; listed are the holds that it asked for.
func (w *walk) polled(session string, listed []string) func(*request, any) outcome {
	return func(_ *request, reply any) outcome {
		n, list := code(reply)
		if n == wire.Foreign {
			return outcome{kind: text(list, 1), missing: listed}
		}
		o := outcome{more: text(list, 2) == "1", has: w.grantsIn(session, text(list, 3))}
		for i, place := range text(list, 4) {
			if place == '0' && !strings.Contains(text(list, 3), nameOf(listed[i])) {
				o.missing = append(o.missing, listed[i])
			}
		}
		return o
	}
}

// attempt19 is what a message says of a hold.
func nameOf(hold string) string { return hold[22:41] }

// server is shared by all walks, each of which has keys of its own.
var server *redistest.Server

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(m, func(s *redistest.Server) { server = s }))
}

const (
	// noon is the stamp at which every walk begins, in 2026.
	noon int64 = 1_780_000_000_000_000
	// second is in the unit of stamps.
	second int64 = 1_000_000
	// label is what holds say of their session.
	label = "höst:42"
	// unmarked is in a hold whose release no session waits for.
	unmarked = "----------------------"
)

// The sides of a read-write lock.
const reads, writes = "r", "w"

// digits is a stamp as it travels.
func digits(stamp int64) string { return fmt.Sprintf("%016d", stamp) }

// sessionOf returns the n-th session.
func sessionOf(n int) string { return strings.Repeat(string(rune('a'+n)), 22) }

// heartbeatNumber is that of the n-th heartbeat.
func heartbeatNumber(n int) string { return fmt.Sprintf("%012drandom-%d", n, n%10) }

// stampOf reads the digits of a stamp.
func stampOf(text string) int64 {
	stamp, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return stamp
}
