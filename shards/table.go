// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// table is what an observer has learnt of a group. A View is a copy of it.
type table struct {
	version, began, membersVersion string // what the next look passes to the server
	count                          int
	named                          bool
	unowned, moving                int
	rows                           map[string]row
	members                        []MemberInfo
	at                             wire.Stamp    // the server's time of the last reply
	ended                          string        // the members whose lease has ended, and when, as the server has written them
	ahead                          time.Duration // by how much stamps of rows are ahead of the server's clock
	missing                        int           // how many names the server has lost
	whole                          bool          // the last reply said that there is no more
	free, draining                 int           // how many of rows have no owner, and how many were asked for
	changed                        bool          // something has changed since the last view
}

func newTable() *table {
	return &table{version: noStamp, began: noStamp, membersVersion: noStamp, rows: make(map[string]row), changed: true}
}

// apply adds what a reply to look says, and reports whether there is more. If the server begins anew, what was known is forgotten.
// So it is if the server counts other shards than there are rows: it has lost writes, as in a failover. Rows whose owners know better
// than the server change again, but not one that was lost before its owner had heard of it.
func (t *table) apply(reply *wire.Reply) (more bool, err error) {
	v, err := proto.ReadShardsView(reply)
	switch {
	case v.Code == wire.NotDone:
		*t = *newTable()
		return false, errNoGroup
	case err != nil:
		return false, err
	case v.Anew:
		t.rows, t.free, t.draining, t.changed = make(map[string]row), 0, 0, true
	}
	for text := v.Rows; text != ""; {
		var name string
		var r row
		if name, r, text, err = readRow(text); err != nil {
			return false, err
		}
		t.put(name, r)
	}
	if v.Changed != t.membersVersion {
		if err = t.readMembers(v.Members); err != nil {
			return false, err
		}
		t.membersVersion, t.changed = v.Changed, true
	}
	t.changed = t.changed || t.count != v.Count || t.ended != v.Ended
	t.version, t.began, t.at = v.Version, v.Began, v.Now
	t.count, t.named, t.unowned, t.moving = v.Count, v.Named, v.Unowned, v.Moving
	t.ahead, t.missing, t.ended = v.Ahead, v.Missing, v.Ended
	was := t.whole
	t.whole = !v.More
	if was && t.whole && !t.isComplete() {
		*t = *newTable()
	}
	return !t.whole, nil
}

// put sets the row of a shard.
func (t *table) put(name string, r row) {
	t.tally(t.rows[name].state, -1)
	t.tally(r.state, 1)
	t.changed = true
	if r.state == stateGone {
		delete(t.rows, name)
	} else {
		t.rows[name] = r
	}
}

// tally counts a row of that state, or one less.
func (t *table) tally(state byte, by int) {
	switch state {
	case stateFree, stateWaits:
		t.free += by
	case stateMoves, stateRemoved, stateResized:
		t.draining += by
	}
}

// isComplete reports whether the server counts the same shards as there are rows. One of a count that never had an owner has no row.
func (t *table) isComplete() bool {
	without := t.count - len(t.rows)
	return (!t.named || without == 0) && t.free+without == t.unowned && t.draining == t.moving
}

// readRow reads a row, and returns what follows it: version, token, owner, promised, state, losses, length of the name, name.
func readRow(text string) (name string, r row, rest string, err error) {
	const token, owner, promised, state = stampSize, 2 * stampSize, 3 * stampSize, 4 * stampSize
	const losses, size = state + 1, state + 5
	if len(text) < size {
		return "", r, "", wire.ErrUnreadable
	}
	r = row{
		version: wire.ParseStamp(text[:token]), stamp: wire.ParseStamp(text[token:owner]),
		owner: text[owner:promised], promised: text[promised:state], state: text[state],
	}
	if r.losses, err = strconv.Atoi(text[losses:size]); err != nil {
		return "", r, "", wire.ErrUnreadable
	}
	name, rest, err = cut(text[size:])
	return name, r, rest, err
}

// readMembers reads the members: number, id, state, weight, limit, label, value.
func (t *table) readMembers(all []string) error {
	const id, state = stampSize, stampSize + proto.HoldSize
	const weight, limit, label = state + 1, state + 5, state + 10
	t.members = make([]MemberInfo, 0, len(all))
	for _, text := range all {
		if len(text) < label {
			return wire.ErrUnreadable
		}
		m := MemberInfo{number: text[:id], Session: text[id : id+proto.SessionSize], Leaving: strings.IndexByte("ged", text[state]) >= 0}
		var err error
		if m.Weight, err = strconv.Atoi(text[weight:limit]); err != nil {
			return wire.ErrUnreadable
		}
		if m.Limit, err = strconv.Atoi(text[limit:label]); err != nil {
			return wire.ErrUnreadable
		}
		if text[state] == 'p' || text[state] == 'q' {
			m.Weight = 0
		}
		if m.Label, m.Value, err = cut(text[label:]); err != nil {
			return err
		}
		t.members = append(t.members, m)
	}
	slices.SortFunc(t.members, func(a, b MemberInfo) int { return cmp.Compare(a.number, b.number) })
	return nil
}

func (t *table) view() *View {
	t.changed = false
	v := &View{
		Count: t.count, Unowned: t.unowned, Draining: t.moving,
		named: t.named, rows: maps.Clone(t.rows), members: make(map[string]int, len(t.members)), began: wire.ParseStamp(t.began), at: t.at.Time(), ahead: t.ahead, missing: t.missing,
	}
	if v.named {
		v.Count = len(v.rows)
	}
	if t.ended != "" {
		v.ended = make(map[string]time.Time)
	}
	for text := t.ended; text != ""; text = text[2*stampSize:] {
		v.ended[text[:stampSize]] = wire.ParseStamp(text[stampSize : 2*stampSize]).Time()
	}
	for _, m := range t.members {
		if _, is := v.ended[m.number]; !is {
			v.members[m.number] = len(v.Members)
			v.Members = append(v.Members, m)
		}
	}
	for _, r := range v.rows {
		if r.state == stateFree || r.state == stateWaits {
			continue
		}
		if i, is := v.members[r.owner]; is {
			v.Members[i].Owned++
		}
		if _, is := v.ended[r.owner]; is {
			v.Unowned++
			if r.state != stateOwned {
				v.Draining--
			}
		}
	}
	return v
}

// since returns how long ago a stamp was, by the server's clock.
func (v *View) since(at time.Time) time.Duration { return v.at.Sub(at) }
