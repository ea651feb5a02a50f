// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// A walk runs scripts by a clock of its own. clockwork goes around a script and replaces what the
// server would do by its clock: TIME, and the expiry of keys. A key that is to live for so many
// milliseconds gets an expiry in the far future of the server, by far; it is deleted here once the
// walk's clock is past it. So the same walk always takes the same steps, however slow the machine
// is.
//
// Messages are returned and not sent. The last two arguments are the walk's clock, a stamp, and the
// mode: "dry" restores all keys when the script is done. The reply is {how, reply, channel,
// message, ...}: how is 1 if the script returned, 2 if it returned an error of the server, 0 if it
// failed.
//
//nolint:dupword // blocks of Lua end one behind the other
const clockwork = redistest.KeyEnds + `
local server, clock, mode = redis, table.remove(ARGV), table.remove(ARGV)
local far, now_ms = 3155760000000, math.floor(tonumber(clock) / 1000)
local messages, seen, order = {}, {}, {}
local function meet(key)
  if seen[key] == nil then
    local at = key_ends(key)
    if at >= 0 and at - far < now_ms then
      server.call('DEL', key)
    end
    seen[key], order[#order + 1] = mode == 'dry' and {server.call('DUMP', key), at} or true, key
  end
end
local function ends(ms)
  local text = type(ms) == 'number' and string.format('%.17g', ms) or ms
  return string.match(text, '^%-?%d+$') and string.format('%.0f', far + now_ms + tonumber(text))
end
local function left(at)
  return at < 0 and at or math.max(at - far - now_ms, 0)
end
local function run(how, command, key, ...)
  if command == 'TIME' then
    return {string.sub(clock, 1, 10), string.format('%.0f', tonumber(string.sub(clock, 11)))}
  elseif command == 'INFO' then
    return server[how](command, key, ...)
  elseif command == 'PUBLISH' or command == 'SPUBLISH' then
    messages[#messages + 1], messages[#messages + 2] = key, ...
    return 0
  end
  meet(key)
  local args = {...}
  if command == 'PTTL' or command == 'PEXPIRETIME' then
    local at = key_ends(key)
    return command == 'PTTL' and left(at) or at < 0 and at or at - far
  elseif command == 'PEXPIRE' and ends(args[1]) then
    local reply = server[how]('PEXPIREAT', key, ends(args[1]), unpack(args, 2))
    if reply == 1 and tonumber(args[1]) <= 0 then
      server.call('DEL', key)
    end
    return reply
  elseif command == 'SET' then
    for n = 2, #args - 1 do
      if args[n] == 'PX' and ends(args[n + 1]) then
        args[n], args[n + 1] = 'PXAT', ends(args[n + 1])
      end
    end
  end
  return server[how](command, key, unpack(args))
end
for _, key in ipairs(KEYS) do
  meet(key)
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
local function script()
`

//nolint:dupword // see above
const clockworkEnd = `
end
local done, reply = pcall(script)
if mode == 'dry' then
  for _, key in ipairs(order) do
    server.call('DEL', key)
    if seen[key][1] and server.call('EXISTS', key) == 0 then
      server.call('RESTORE', key, seen[key][2] < 0 and 0 or string.format('%.0f', seen[key][2]), seen[key][1], 'ABSTTL')
    end
  end
end
local how = done and 1 or 0
if type(reply) == 'table' and reply['err'] then
  how, reply = done and 2 or 0, reply['err']
end
return {how, reply, unpack(messages)}
`

// stage is a server with a clock that a walk sets, and the keys of one name there.
type stage struct {
	testing.TB

	client rueidis.Client
	name   string
	clock  int64 // what TIME returns, a stamp
	now    int64 // the true time, by which sessions count: it never jumps
	high   int64 // the latest that the clock ever was
}

// stages counts them, so that no two meet on a key if tests are repeated, and knows which scripts
// the server has.
var stages = &loaded{digests: make(map[*scripts.Script]string)}

// loaded has the digests of the scripts with the clockwork around them.
type loaded struct {
	sync.Mutex

	n       int
	digests map[*scripts.Script]string
}

func (l *loaded) next() int {
	l.Lock()
	defer l.Unlock()
	l.n++
	return l.n
}

func (l *loaded) digest(s *stage, script *scripts.Script) string {
	l.Lock()
	defer l.Unlock()
	if l.digests[script] == "" {
		l.digests[script] = fmt.Sprint(s.do("SCRIPT", "LOAD", clockwork+script.Source+clockworkEnd))
	}
	return l.digests[script]
}

func newStage(tb testing.TB) *stage {
	tb.Helper()
	redistest.NeedServer(tb)
	client := server.Client(tb, func(o *rueidis.ClientOption) { o.DisableCache, o.ForceSingleClient = true, true })
	return &stage{
		TB: tb, client: client, name: fmt.Sprintf("sb:{walk %d}:", stages.next()), clock: noon, now: noon, high: noon,
	}
}

// result is the reply of a script, and the messages that it sent.
type result struct {
	reply any
	err   string // the error that the script returned, or failed by
	said  []message

	before, after string // the text of the holder key
}

type message struct{ channel, text string }

// eval runs a request by the walk's clock, and returns when a key ended by then, as expiries does.
func (s *stage) eval(r *request, key string) (result, int64) {
	s.Helper()
	expiry := s.client.B().Pexpiretime().Key(key).Build()
	get := func() rueidis.Completed { return s.client.B().Get().Key(key).Build() }
	results := s.client.DoMulti(context.Background(), expiry, get(), s.command(r, ""), get())
	reply, err := results[2].ToAny()
	require.NoError(s, err, r.script.Name)
	a := s.result(r, reply)
	a.before, _ = results[1].ToString()
	a.after, _ = results[3].ToString()
	return a, s.ended(results[0])
}

// ended returns what a key's expiry is by the walk's clock.
func (s *stage) ended(result rueidis.RedisResult) int64 {
	s.Helper()
	at, err := result.AsInt64()
	require.NoError(s, err)
	if at < 0 {
		return at
	}
	if at -= far; at < s.clock/1000 {
		return -2
	}
	return at
}

// probe runs requests in one go, each of which leaves no trace.
func (s *stage) probe(requests []*request) []result {
	s.Helper()
	commands := make([]rueidis.Completed, len(requests))
	for i, r := range requests {
		commands[i] = s.command(r, "dry")
	}
	results := make([]result, len(requests))
	for i, result := range s.client.DoMulti(context.Background(), commands...) {
		reply, err := result.ToAny()
		require.NoError(s, err, requests[i].script.Name)
		results[i] = s.result(requests[i], reply)
	}
	return results
}

func (s *stage) command(r *request, mode string) rueidis.Completed {
	s.Helper()
	words := make([]string, 0, len(r.args)+2)
	for _, arg := range r.args {
		words = append(words, fmt.Sprint(arg))
	}
	words = append(words, mode, digits(s.clock))
	digest := stages.digest(s, r.script)
	return s.client.B().Evalsha().Sha1(digest).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(words...).Build()
}

func (s *stage) result(r *request, reply any) result {
	s.Helper()
	list, _ := reply.([]any)
	require.GreaterOrEqual(s, len(list), 2)
	a := result{reply: list[1]}
	if list[0] != int64(1) {
		a.err = fmt.Sprint(list[1])
	}
	for n := 2; n+1 < len(list); n += 2 {
		a.said = append(a.said, message{fmt.Sprint(list[n]), fmt.Sprint(list[n+1])})
	}
	if strings.Contains(r.script.Source, "  by key: ") { // of one key here
		one, _ := list[1].([]any)
		require.Len(s, one, 1)
		a.reply = one[0]
	}
	return a
}

// do sends a plain command.
func (s *stage) do(args ...any) any {
	s.Helper()
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	reply, err := s.client.Do(context.Background(), s.client.B().Arbitrary(words...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	require.NoError(s, err, words)
	return reply
}

// passes lets time pass. Keys expire when they are met next.
func (s *stage) passes(us int64) {
	s.now += us
	s.steps(us)
}

// steps sets the clock forward or back, while no time passes.
func (s *stage) steps(us int64) {
	s.clock += us
	s.high = max(s.high, s.clock)
}

// far is what clockwork adds to the expiry of keys, in milliseconds.
const far = 3_155_760_000_000

// expires lets a key end at that time of the clock, if it is there.
func (s *stage) expires(key string, at int64) {
	s.Helper()
	s.do("PEXPIREAT", key, far+at/1000)
}

// expiries returns when keys end by the clock, in milliseconds: -1 for one that does not, and -2
// for one that is not there.
func (s *stage) expiries(keys []string) []int64 {
	s.Helper()
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = s.client.B().Pexpiretime().Key(key).Build()
	}
	all := make([]int64, len(keys))
	for i, result := range s.client.DoMulti(context.Background(), commands...) {
		all[i] = s.ended(result)
	}
	return all
}

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
