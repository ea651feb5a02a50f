// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// observer reads a group as one that is no member.
type observer struct {
	*group

	seen, began, members string
	rows                 map[string]row
	listed               int // members in the last list
	pages                int // how many replies the last read took
	unowned, moving      int64
}

func newObserver(g *group) *observer {
	return &observer{group: g, seen: never, began: never, members: never, rows: make(map[string]row)}
}

// reads lets the observer read all that has changed.
func (o *observer) reads() {
	o.Helper()
	o.pages = 0
	for {
		reply := o.call(proto.ShardsReadScript, o.seen, o.began, o.members, "")
		o.pages++
		if integer(reply[0]) == 2 {
			clear(o.rows)
		}
		o.seen, o.began, o.members = textOf(reply[2]), textOf(reply[4]), textOf(reply[9])
		o.unowned, o.moving = integer(reply[7]), integer(reply[8])
		o.read(textOf(reply[10]))
		if list, _ := reply[11].([]any); len(list) > 0 {
			o.listed = len(list)
		}
		if integer(reply[3]) == 0 {
			return
		}
	}
}

func (o *observer) read(text string) {
	for text != "" {
		length, _ := strconv.Atoi(text[69:71])
		shard := text[71 : 71+length]
		o.rows[shard] = row{version: text[:16], token: text[16:32], owner: text[32:48], state: text[64:65]}
		if text[64:65] == "g" {
			delete(o.rows, shard)
		}
		text = text[71+length:]
	}
}

// requireWhole checks that an observer knows what the rows are.
func (o *observer) requireWhole() {
	o.Helper()
	o.reads()
	want := make(map[string]row)
	for shard, r := range o.group.rows() {
		if r.owner == never {
			r.token = r.since
		}
		if r.state != "g" {
			want[shard] = row{version: r.version, token: r.token, owner: r.owner, state: r.state}
		}
	}
	require.Equal(o, want, o.rows)
}

func TestAnObserverReadsWhatChanged(t *testing.T) {
	t.Parallel()
	w := evenWorld(t, 600, 3)
	o := newObserver(w.group)
	o.requireWhole()
	require.Equal(t, 2, o.pages)
	require.Equal(t, 3, o.listed)
	require.Zero(t, o.unowned)
	o.reads()
	require.Equal(t, 1, o.pages)
	require.Less(t, w.commands, 8)
	w.add(defaults(600))
	w.runs(3*second, second)
	o.requireWhole()
	require.Equal(t, 1, o.pages)
	require.Equal(t, 4, o.listed)
	for _, m := range w.members {
		m.kill()
	}
	w.resize(20)
	w.count = 20
	w.add(defaults(20))
	w.runs(40*second, second)
	w.requireEven()
	o.requireWhole()
	one := w.call(proto.ShardsReadScript, never, never, never, "7")
	require.Len(t, one[10], 71+1)
	require.Len(t, one[11], 1)
}

// A name that left is forgotten a minute later, and observers that did not read that begin anew.
func TestAnObserverThatWasAwayBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 0)
	m := w.add(defaults(0))
	w.sync(1, "a", "b", "c")
	w.runs(3*second, second)
	away, here := newObserver(w.group), newObserver(w.group)
	away.requireWhole()
	here.requireWhole()
	m.release("b", "x", 0)
	for range 70 {
		w.runs(second, second)
		here.requireWhole()
	}
	require.Len(t, here.rows, 2)
	away.requireWhole()
}
