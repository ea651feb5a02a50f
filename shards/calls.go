// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
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

func (g *Group) call(script *scripts.Script, args []string) wire.Call {
	return wire.Call{Script: script, Keys: g.keys, Args: args}
}

// publish says how a script notifies members.
func (g *Group) publish() proto.Publish {
	return proto.Publish{Verb: g.base.Session.PublishCommand(), Channel: g.news}
}

// notAfter returns until when a call that is sent now may take effect.
func (g *Group) notAfter() string {
	return g.base.Session.NotAfter(g.slot, timers.Now(), session.MaxPatience).Text()
}

// observe records the server's time of a reply, and returns the error that its code is.
func (g *Group) observe(reply proto.ShardsHead) error {
	if reply.Now != 0 {
		g.base.Session.Clock.Observe(g.slot, reply.Now, timers.Now())
	}
	switch reply.Code {
	case wire.Late:
		return errLate
	case wire.Foreign:
		return fmt.Errorf("%w: the key is not a group's", errs.ErrWrongKind)
	case wire.OtherCapacity:
		return &MismatchError{Want: g.set.count, Have: reply.Have}
	default:
		return nil
	}
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// joinCall returns the call that joins, with all that the member has said before. old is the number of the membership that was lost
// before, and the greatest token, or "".
func (m *Member) joinCall(id, old string, desired settings) wire.Call {
	g := m.group
	o := &g.options
	return g.call(proto.ShardsJoinScript, proto.ShardsJoin{
		ID: id, NotAfter: g.notAfter(), LeaseUS: micros(g.base.Terms.Lease), Weight: strconv.Itoa(max(desired.weight, 1)),
		Limit: strconv.Itoa(max(desired.limit, 1)), Count: strconv.Itoa(g.set.count), Exact: proto.Flag(g.set.exact), CalmUS: micros(o.RebalanceDelay),
		Moves: strconv.Itoa(o.Moves), DrainUS: micros(o.DrainLimit), Old: old, Label: g.base.Session.Settings.Label, Value: desired.value,
		Mode: desired.mode(), Requested: g.requested, Known: desired.known,
	}.AppendTo(nil))
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

// readAllNews reads the news of a poll.
func readAllNews(text string) (news []newsEntry, err error) {
	for text != "" {
		var e newsEntry
		if e, text, err = readNews(text); err != nil {
			return nil, err
		}
		news = append(news, e)
	}
	return news, nil
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
	return g.call(proto.ShardsReleaseScript, proto.ShardsRelease{Number: number, Shards: string(entries), Publish: g.publish()}.AppendTo(nil))
}
