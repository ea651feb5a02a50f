// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// right is a command that sessions need, and a call of it that changes nothing: its key does not exist, and a call that would
// write has an option or an argument that keeps it from that. A server checks rights before arguments.
type right struct {
	call     string // the words; KEY and CHANNEL stand for names of the probe
	optional bool   // reports whether locks work without it, more slowly or less well
}

// scriptRights are the commands that scripts call. A test compares them with docs/security.md.
//
//nolint:gochecknoglobals // a constant table
var scriptRights = []right{
	{"TIME", false},
	{"GET KEY", false},
	{"MGET KEY", true},
	{"SET KEY x XX PX 1", false},
	{"SETRANGE KEY 0 EMPTY", false},
	{"DEL KEY", false},
	{"EXISTS KEY", false},
	{"PTTL KEY", false},
	{"PEXPIRE KEY 1", false},
	{"PEXPIRETIME KEY", true},
	{"HGET KEY f", false},
	{"HMGET KEY f", false},
	{"HGETALL KEY", true},     // as ZLEXCOUNT, for groups of shards alone
	{"HSET KEY f v f", false}, // a value is missing
	{"HDEL KEY f", false},
	{"HLEN KEY", false},
	{"HRANDFIELD KEY", false},
	{"ZADD KEY XX 1 m", false},
	{"ZCARD KEY", false},
	{"ZLEXCOUNT KEY - +", true},
	{"ZMSCORE KEY m", false},
	{"ZPOPMIN KEY", false},
	{"ZRANGE KEY 0 0", false},
	{"ZRANK KEY m", false},
	{"ZREM KEY m", false},
	{"ZSCORE KEY m", false},
	{"UNLINK KEY", true},
	{"PUBLISH CHANNEL x", true},
	{"PUBSUB NUMSUB CHANNEL", true},
	{"INFO memory", true},
}

// clusterRights are those that scripts need in a cluster as well.
//
//nolint:gochecknoglobals // a constant table
var clusterRights = []right{{"SPUBLISH CHANNEL x", true}}

// directRights are commands that sessions and their client send themselves. SUBSCRIBE is tried by checkMessages.
//
//nolint:gochecknoglobals // a constant table
var directRights = []right{
	{"EVALSHA 0000000000000000000000000000000000000000 1 KEY", false}, // no script has this digest
	{"EVAL return 1 KEY", false},
	{"PING", true},
}

// refusal says what a server refused a call for.
type refusal int

const (
	notRefused refusal = iota // also if the server executed the call, and found its arguments wrong
	refusedCommand
	refusedKey
	refusedChannel
	refusedUnknown // the server has no such command
)

// scriptPosition is what Redis 6.2 puts before the words of an error in a script.
var scriptPosition = regexp.MustCompile(`^@user_script: ?\d+: `)

// parseRefusal reads the words of a server. Users choose the names in them, so each is compared from its beginning.
func parseRefusal(words string) refusal {
	lower := strings.ToLower(scriptPosition.ReplaceAllString(words, ""))
	isDenial := false
	for _, beginning := range []string{"noperm", "err acl failure in script", "acl failure in script", "err the user executing the script", "the user executing the script"} {
		isDenial = isDenial || strings.HasPrefix(lower, beginning)
	}
	switch {
	case isDenial && strings.Contains(lower, "to run the '"):
		return refusedCommand
	case isDenial && strings.Contains(lower, " channel"):
		return refusedChannel
	case isDenial && strings.Contains(lower, " key"):
		return refusedKey
	case isDenial:
		return refusedCommand
	case strings.Contains(lower, "unknown command"), strings.Contains(lower, "unknown redis command"), strings.Contains(lower, "unknown valkey command"):
		return refusedUnknown
	}
	return notRefused
}

// probeScript calls each of several commands, and returns the words with which each was refused. ARGV has for each the number
// of its words, and these.
const probeScript = `
local at, refusals = 1, {}
while ARGV[at] do
  local words = {}
  for i = 1, tonumber(ARGV[at]) do
    words[i] = ARGV[at + i]
  end
  at = at + 1 + #words
  local reply = redis.pcall(unpack(words))
  refusals[#refusals + 1] = type(reply) == 'table' and reply['err'] or ''
end
return refusals`

// words returns the call of a right on the names of the probe.
func (r right) words(n *node) []string {
	if rest, isScript := strings.CutPrefix(r.call, "EVAL "); isScript {
		return []string{"EVAL", strings.TrimSuffix(rest, " KEY"), "1", n.key}
	}
	words := strings.Fields(r.call)
	for i, word := range words {
		switch word {
		case "KEY":
			words[i] = n.key
		case "CHANNEL":
			words[i] = n.channel()
		case "EMPTY":
			words[i] = ""
		}
	}
	return words
}

func (r right) command() string { return strings.ToLower(strings.Fields(r.call)[0]) }

// channel returns a channel in the slot of the node's key. No session listens to it.
func (n *node) channel() string { return n.key + ":messages" }

// missing is what a user lacks.
type missing struct {
	commands, optional []string
	unknown            []string // commands that the server does not have
	keys, channels     bool
	refused            string // the words with which the server refuses writes, "" if it accepts them
	tried              bool   // reports that a command that writes was tried, and the user has the right
}

// writeCommands are those that a server in trouble refuses, and rights have.
//
//nolint:gochecknoglobals // a constant table
var writeCommands = []string{"set", "hset", "zadd", "setrange"}

func (m *missing) record(r right, words string) {
	command := r.command()
	if t := troubleOf(words); t != nil {
		m.refused = cmp.Or(m.refused, words)
	}
	switch parseRefusal(words) {
	case refusedCommand:
		if r.optional {
			m.optional = append(m.optional, command)
		} else {
			m.commands = append(m.commands, command)
		}
	case refusedUnknown:
		if !r.optional { // sessions do without the others on servers that lack them
			m.unknown = append(m.unknown, command)
		}
	case refusedKey:
		m.keys = true
	case refusedChannel:
		m.channels = true
	case notRefused:
		m.tried = m.tried || slices.Contains(writeCommands, command)
	}
}

// checkRights tries every command that a session needs, those of scripts by a script.
func (e *examination) checkRights(ctx context.Context, n *node) []finding {
	rights := scriptRights
	if n.sharded {
		rights = slices.Concat(scriptRights, clusterRights)
	}
	direct, err := n.try(ctx, directRights)
	var inScript []string
	if err == nil {
		inScript, err = n.tryInScript(ctx, rights)
	}
	if err != nil {
		return []finding{unknownRights(err)}
	}
	var lacks missing
	for i, words := range direct {
		lacks.record(directRights[i], words)
	}
	for i, words := range inScript {
		lacks.record(rights[i], words)
		if rights[i].command() == "spublish" && parseRefusal(words) == refusedUnknown {
			n.sharded = false
		}
	}
	return append(lacks.findings(e.user, e.prefix), lacks.writes()...)
}

// unknownRights is the finding if the rights could not be tried.
func unknownRights(err error) finding {
	text := "not known, there was no reply: "
	if wordsOf(err) != "" {
		text = "not known, the server refuses: "
	}
	return finding{Check: "rights", Status: statusProblem, Found: text + err.Error(), Advice: adviceFor(err, "")}
}

// writes says whether the server accepts writes now. Without the right for one that is not known.
func (m *missing) writes() []finding {
	switch {
	case m.refused != "":
		return []finding{{Check: "writes", Status: statusProblem, Found: "the server refuses what acquires a lock: " + m.refused, Advice: troubleOf(m.refused).advice}}
	case m.tried:
		return []finding{{Check: "writes", Status: statusOK, Found: "the server accepts writes"}}
	}
	return nil
}

// try sends the calls one by one, and returns the words with which each was refused, "" if it was not. It returns an error
// if there is no reply, or if the server refuses more than writes.
func (n *node) try(ctx context.Context, rights []right) (refusals []string, err error) {
	for _, r := range rights {
		words := r.words(n)
		err := n.client.Do(ctx, n.client.B().Arbitrary(words...).Build()).Error()
		refusal := wordsOf(err)
		if t := troubleOf(refusal); err != nil && (refusal == "" || t != nil && !t.ofWrites) {
			return nil, err
		}
		refusals = append(refusals, refusal)
	}
	return refusals, nil
}

// tryInScript is try by one script, as sessions call them. If the server does not run the script, it tries them without.
func (n *node) tryInScript(ctx context.Context, rights []right) (refusals []string, err error) {
	call := n.client.B().Eval().Script(probeScript).Numkeys(1).Key(n.key).Arg()
	for _, r := range rights {
		words := r.words(n)
		call = call.Arg(strconv.Itoa(len(words))).Arg(words...)
	}
	refusals, err = n.client.Do(ctx, call.Build()).AsStrSlice()
	if err != nil || len(refusals) != len(rights) {
		return n.try(ctx, rights)
	}
	return refusals, nil
}

// findings says what is missing, and what to grant.
func (m *missing) findings(user, prefix string) []finding {
	var found []finding
	add := func(status, text, advice string) {
		found = append(found, finding{Check: "rights", Status: status, Found: text, Advice: advice})
	}
	grant := func(rights ...string) string {
		return fmt.Sprintf("ACL SETUSER %s %s (docs/security.md lists all rights)", user, strings.Join(rights, " "))
	}
	if len(m.commands) > 0 {
		add(statusProblem, "the user may not call "+joined(m.commands), grant(plus(m.commands)...))
	}
	if m.keys {
		add(statusProblem, "the user may not use keys that begin with "+prefix, grant("~"+prefix+"*"))
	}
	if len(m.unknown) > 0 {
		add(statusProblem, "the server has no "+joined(m.unknown), "use a server that has them; docs/servers.md lists servers")
	}
	if len(m.optional) > 0 {
		add(statusWarning, "the user may not call "+joined(m.optional)+": locks work, with less", grant(plus(m.optional)...))
	}
	if m.channels {
		add(statusWarning, "the user may not publish on channels that begin with "+prefix+": waiters poll", grant("&"+prefix+"*"))
	}
	if len(found) == 0 {
		add(statusOK, "the user has the rights of all kinds of locks", "")
	}
	return found
}

func plus(commands []string) []string {
	rights := make([]string, len(commands))
	for i, command := range commands {
		rights[i] = "+" + command
	}
	return rights
}

// messageTimeout is how long a message may take.
const messageTimeout = 5 * time.Second

// messageProbe has the commands with which sessions receive and publish messages at a node.
type messageProbe struct{ subscribe, publish string }

func (n *node) messageProbe() messageProbe {
	if n.sharded {
		return messageProbe{"SSUBSCRIBE", "SPUBLISH"}
	}
	return messageProbe{"SUBSCRIBE", "PUBLISH"}
}

// checkMessages subscribes to a channel, lets a script publish there, and waits for the message.
func (e *examination) checkMessages(ctx context.Context, n *node) finding {
	warning := func(found, advice string) finding {
		return finding{Check: "messages", Status: statusWarning, Found: found, Advice: advice}
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	probe := n.messageProbe()
	listener, _ := n.client.Dedicate()
	defer listener.Close() // a release would send commands that need rights
	arrived := make(chan struct{}, 1)
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case arrived <- struct{}{}:
		default:
		}
	}})
	if err := n.subscribe(ctx, listener); err != nil {
		advice := "see what stands between this host and the server"
		if troubleOf(wordsOf(err)) != nil {
			advice = adviceFor(err, "")
		}
		switch parseRefusal(wordsOf(err)) {
		case refusedCommand:
			advice = fmt.Sprintf("ACL SETUSER %s +%s", e.user, strings.ToLower(probe.subscribe))
		case refusedChannel:
			advice = fmt.Sprintf("ACL SETUSER %s &%s*", e.user, e.prefix)
		case notRefused, refusedKey, refusedUnknown:
		}
		return warning("no subscription, so waiters poll ten times a second: "+err.Error(), advice)
	}
	script := "return redis.call('" + probe.publish + "', ARGV[1], 'x')"
	call := n.client.B().Eval().Script(script).Numkeys(1).Key(n.key).Arg(n.channel()).Build()
	if err := n.client.Do(ctx, call).Error(); err != nil {
		return warning("a script cannot publish, so waiters poll: "+err.Error(), adviceFor(err, "grant the rights that are missing"))
	}
	select {
	case <-arrived:
		return finding{Check: "messages", Status: statusOK, Found: "a message that a script published arrived (" + probe.publish + ")"}
	case <-ctx.Done():
		return warning(fmt.Sprintf("no message arrived within %s, so waiters poll about once a second", messageTimeout),
			"see what stands between this host and the server: a proxy may forward no messages")
	}
}

func (n *node) subscribe(ctx context.Context, listener rueidis.DedicatedClient) error {
	if n.sharded {
		return listener.Do(ctx, n.client.B().Ssubscribe().Channel(n.channel()).Build()).Error()
	}
	return listener.Do(ctx, n.client.B().Subscribe().Channel(n.channel()).Build()).Error()
}
