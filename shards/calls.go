// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The calls of a group, and what their replies say. scripts/shards has the scripts.

const (
	// stampSize is the length of a stamp, such as the number of a member.
	stampSize = 16
	// maxReleases is how many shards one call releases, and maxSync how many names one page of a Sync has.
	maxReleases, maxSync = 16, 128
	// noStamp is the stamp that is before every other.
	noStamp = "0000000000000000"
)

// errLate is the error of a call that the server executed after its not-after.
var errLate = errors.New("the server took too long")

// errNoGroup is the error of a call for a group that the server does not know.
var errNoGroup error = noGroupError{}

// noGroupError matches ErrNotHeld, and does not speak of a lease.
type noGroupError struct{}

// Error implements error.
func (noGroupError) Error() string {
	return "the server has no such group: no member has joined for a week, or its data was lost"
}

// Unwrap returns ErrNotHeld.
func (noGroupError) Unwrap() error { return errs.ErrNotHeld }

// errLostWrites is why a shard ends that the server does not know of any more.
var errLostWrites = fmt.Errorf("%w: the server lost the newest writes of the group, as in a failover", errs.ErrLostGone)

// errLostGroup is logged when the server has lost the group.
var errLostGroup = fmt.Errorf("%w: the server lost the data of the group. Its members set again what they know: the count, weights, values, and the names of "+
	"shards that had an owner", errs.ErrLostGone)

// call returns a call of a script of this group.
func (g *Group) call(script *scripts.Script, args ...string) wire.Call {
	return wire.Call{Script: script, Keys: g.keys, Args: args}
}

// publishing is call with the arguments that say how a script notifies members.
func (g *Group) publishing(script *scripts.Script, args ...string) wire.Call {
	return g.call(script, append(args, g.base.Session.PublishCommand(), g.news)...)
}

// notAfter returns until when a call that is sent now may take effect.
func (g *Group) notAfter() string {
	return g.base.Session.NotAfter(g.slot, timers.Now(), session.MaxPatience).Text()
}

// observe records the server's time of a reply, and returns the error that its code is.
func (g *Group) observe(reply *wire.Reply) error {
	code := reply.Code()
	if now := reply.Stamp(1); now != 0 && code != wire.Foreign && code != wire.OtherCapacity {
		g.base.Session.Clock.Observe(g.slot, now, timers.Now())
	}
	switch code {
	case wire.Late:
		return errLate
	case wire.Foreign:
		return fmt.Errorf("%w: the key is not a group's", errs.ErrWrongKind)
	case wire.OtherCapacity:
		return g.mismatch(reply)
	default:
		return nil
	}
}

// mismatch returns the error of a reply that says which set the group has: a count, and whether that is one of names.
func (g *Group) mismatch(reply *wire.Reply) error {
	have := int(reply.Int(1))
	if reply.Int(2) == 1 {
		have = 0
	}
	return &MismatchError{Want: g.set.count, Have: have}
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func flag(set bool) string { //nolint:revive // an argument, not a switch
	if set {
		return "1"
	}
	return "0"
}

// joinReply is what a join returns.
type joinReply struct {
	number string        // the name of the member at the server
	life   time.Duration // how long its lease lasts
	count  int           // how many shards the set has
	// restored says that the server had lost the group: it has the count again, and names come from those that had them.
	restored bool
}

// joinCall returns the call that joins, with all that the member has said before. old is the number of the membership that was lost
// before, and the greatest token, or "".
func (m *Member) joinCall(id, old string, desired settings) wire.Call {
	g := m.group
	o := &g.options
	return g.call(scripts.ShardsJoin,
		id, g.notAfter(), micros(g.base.Terms.Lease), strconv.Itoa(max(desired.weight, 1)), strconv.Itoa(max(desired.limit, 1)), strconv.Itoa(g.set.count),
		flag(g.set.exact), micros(o.RebalanceDelay), strconv.Itoa(o.Moves), micros(o.DrainLimit), old, g.base.Session.Settings.Label, desired.value,
		desired.mode(), g.requested, desired.known,
	)
}

func (g *Group) readJoin(reply *wire.Reply) (joinReply, error) {
	if reply.Code() == wire.OtherCapacity {
		return joinReply{}, g.mismatch(reply)
	}
	if reply.Code() == wire.Done {
		if reply.Stamp(1) == 0 || reply.Stamp(2) == 0 || reply.Int(3) <= 0 {
			return joinReply{}, wire.ErrUnreadable
		}
		g.base.Session.Clock.Observe(g.slot, reply.Stamp(2), timers.Now())
		return joinReply{reply.Text(1), time.Duration(reply.Int(3)) * time.Microsecond, int(reply.Int(4)), reply.Int(5) == 1}, nil
	}
	if err := g.observe(reply); err != nil {
		return joinReply{}, err
	}
	return joinReply{}, wire.ErrUnreadable
}

// pollReply is what a poll returns.
type pollReply struct {
	life       time.Duration
	more       bool
	count      int
	known      string // what a join says of the group if the server loses it
	wantsNames bool   // this member is to send the names of its set, which all members request
	read       string // the version of the last change of the shards that it owns and that have no news, and how many these are
	news       []newsEntry
}

// newsEntry is a change of a shard of the member.
type newsEntry struct {
	version string
	stamp   wire.Stamp // the stamp of the token
	state   byte       // the state, as below
	losses  int
	name    string
}

// The states of a shard in replies.
const (
	stateOwned   = 'o'
	stateMoves   = 'a'
	stateRemoved = 'x'
	stateResized = 'r'
	stateFree    = 'f'
	stateWaits   = 'w'
	stateGone    = 'g'
)

// readPoll reads the reply to the poll of a member.
func readPoll(reply *wire.Reply) (p pollReply, err error) {
	if reply.Int(2) <= 0 {
		return pollReply{}, wire.ErrUnreadable
	}
	p = pollReply{life: time.Duration(reply.Int(2)) * time.Microsecond, more: reply.Int(3) == 1, count: int(reply.Int(4)), known: reply.Text(6), wantsNames: reply.Int(7) == 1, read: reply.Text(8)}
	for text := reply.Text(5); text != ""; {
		var e newsEntry
		if e, text, err = readNews(text); err != nil {
			return pollReply{}, err
		}
		p.news = append(p.news, e)
	}
	return p, nil
}

// readNews reads an entry, and returns what follows it: version, token, state, losses, length of the name, name.
func readNews(text string) (e newsEntry, rest string, err error) {
	const state, losses, size, name = 2 * stampSize, 2*stampSize + 1, 2*stampSize + 5, 2*stampSize + 7
	if len(text) < name {
		return e, "", wire.ErrUnreadable
	}
	e.version, e.stamp, e.state = text[:stampSize], wire.ParseStamp(text[stampSize:state]), text[state]
	if e.losses, err = strconv.Atoi(text[losses:size]); err != nil {
		return e, "", wire.ErrUnreadable
	}
	e.name, rest, err = cut(text[size:])
	return e, rest, err
}

// cut reads a text behind the two digits of its length, and returns what follows it.
func cut(text string) (value, rest string, err error) {
	const digits = 2
	if len(text) < digits {
		return "", "", wire.ErrUnreadable
	}
	size, err := strconv.ParseUint(text[:digits], 10, 8)
	if err != nil || len(text) < digits+int(size) { //nolint:gosec // two digits
		return "", "", wire.ErrUnreadable
	}
	return text[digits : digits+size], text[digits+size:], nil
}

// appendText appends a text behind the two digits of its length.
func appendText(to []byte, text string) []byte {
	return append(append(to, byte('0'+len(text)/10), byte('0'+len(text)%10)), text...)
}

// releaseCall returns the call that releases these shards of a member.
func (g *Group) releaseCall(number string, all []*released) wire.Call {
	entries := make([]byte, 0, len(all)*(stampSize+1+15+2+8))
	for _, r := range all {
		entries = r.stamp.Append(entries)
		ending := byte('r')
		switch {
		case r.declined:
			ending = 'd'
		case r.finished:
			ending = 'x'
		case r.unread:
			ending = 'u'
		case r.elsewhere > 0:
			ending = 'e'
		}
		entries = append(entries, ending)
		entries = fmt.Appendf(entries, "%015d", r.elsewhere.Microseconds())
		entries = appendText(entries, r.name)
	}
	return g.publishing(scripts.ShardsRelease, number, string(entries))
}
