// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// keyCopy is a key as it was.
type keyCopy struct {
	text    string
	fields  map[string]string
	members map[string]float64
	list    []string
	life    time.Duration
}

// copyOf returns all keys of a server.
func copyOf(m *miniredis.Miniredis) map[string]keyCopy {
	all := make(map[string]keyCopy)
	for _, key := range m.Keys() {
		c := keyCopy{life: m.TTL(key)}
		switch m.Type(key) {
		case "string":
			c.text, _ = m.Get(key)
		case "hash":
			c.fields = make(map[string]string)
			names, _ := m.HKeys(key)
			for _, name := range names {
				c.fields[name] = m.HGet(key, name)
			}
		case "zset":
			members, _ := m.SortedSet(key) // which the server uses further
			c.members = maps.Clone(members)
		case "list":
			list, _ := m.List(key)
			c.list = slices.Clone(list)
		}
		all[key] = c
	}
	return all
}

// restore gives the server the key as it was.
func (c keyCopy) restore(m *miniredis.Miniredis, key string) {
	m.Del(key)
	for name, value := range c.fields {
		m.HSet(key, name, value)
	}
	for member, score := range c.members {
		_, _ = m.ZAdd(key, score, member)
	}
	if len(c.list) > 0 {
		_, _ = m.Push(key, c.list...)
	}
	if c.text != "" {
		_ = m.Set(key, c.text)
	}
	if c.life > 0 {
		m.SetTTL(key, c.life)
	}
}

// happens does something to the clock or a key of a server.
func (h *mishaps) happens(c chance) {
	i := c.IntN(len(h.redis))
	m := h.redis[i]
	keys := slices.DeleteFunc(m.Keys(), func(key string) bool {
		return !strings.Contains(key, "{") && key != "a" && !strings.HasPrefix(key, "a")
	})
	key := ""
	if len(keys) > 0 {
		key = keys[c.IntN(len(keys))]
	}
	isQueue := h.k.In == nil && (strings.HasSuffix(key, "queue") || strings.HasSuffix(key, "heartbeats") || strings.HasSuffix(key, "readers"))
	back := []time.Duration{time.Microsecond, time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 28 * time.Second, 100 * time.Second, 2 * time.Hour}
	what, step := c.IntN(14), -back[c.IntN(len(back))]
	const year = 365 * 24 * time.Hour
	switch {
	case what < 4:
		if h.rough && c.IntN(2) == 0 {
			step = append(slices.Repeat([]time.Duration{-step}, 4), year, -year, 20*year, -20*year)[c.IntN(8)]
		}
		h.note("the clock of %d: %v", i, step)
		h.step(i, step)
		return
	case what == 4:
		h.old[i] = append(h.old[i], copyOf(m))
		return
	case key == "" || !h.rough && (!isQueue || what > 7):
		return
	}
	h.note("%s of %d: %d", key, i, what)
	one := copyOf(m)[key]
	switch {
	case what < 7:
		m.Del(key)
	case what == 7:
		m.SetTTL(key, c.below(time.Second)+1)
	case what == 8:
		m.SetTTL(key, 200*year)
	case what == 9:
		_ = h.Do(h.admins[i], key, "PERSIST").Error()
	case what == 10 && one.text != "":
		_ = m.Set(key, one.text[:c.IntN(len(one.text))])
		m.SetTTL(key, max(one.life, time.Second))
	case what == 10:
		for _, name := range slices.Sorted(maps.Keys(one.fields)) {
			m.HSet(key, name, one.fields[name][:c.IntN(len(one.fields[name])+1)])
		}
		if members := slices.Sorted(maps.Keys(one.members)); len(members) > 0 {
			_, _ = m.ZAdd(key, float64(c.IntN(1000)), members[c.IntN(len(members))])
		}
	case what == 11:
		others := []keyCopy{{text: "x"}, {fields: map[string]string{"x": "x"}}, {members: map[string]float64{"x": 1}}, {list: []string{"x"}}}
		others[c.IntN(4)].restore(m, key)
		time.Sleep(c.below(3 * time.Second))
		m.Del(key)
	case len(h.old[i]) > 0:
		old := h.old[i][c.IntN(len(h.old[i]))]
		if what == 13 { // all that it had, as a restart with an old file
			m.FlushAll()
			for key := range old {
				old[key].restore(m, key)
			}
		} else if c, is := old[key]; is {
			c.restore(m, key)
		}
	}
}
