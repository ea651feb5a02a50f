// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// row is a row as it is stored.
type row struct{ state, owner, version, token, promised, class, losses, till, since string }

// hash returns a key that is a hash.
func (g *group) hash(n int) map[string]string {
	g.Helper()
	list, _ := g.server.MustDo(g, "HGETALL", g.keys[n]).([]any)
	all := make(map[string]string)
	for i := 0; i < len(list); i += 2 {
		all[textOf(list[i])] = textOf(list[i+1])
	}
	return all
}

// sorted returns the members of a key that is a sorted set, with their scores as they are written.
func (g *group) sorted(n int) (members []string, scores map[string]string) {
	g.Helper()
	list, _ := g.server.MustDo(g, "ZRANGE", g.keys[n], 0, -1, "WITHSCORES").([]any)
	scores = make(map[string]string)
	for i := 0; i < len(list); i += 2 {
		members = append(members, textOf(list[i]))
		scores[textOf(list[i])] = textOf(list[i+1])
	}
	return members, scores
}

// rows returns all rows.
func (g *group) rows() map[string]row {
	g.Helper()
	all := make(map[string]row)
	texts := g.hash(6)
	delete(texts, "") // the newest version
	for shard, text := range texts {
		f := strings.Split(text, " ")
		require.GreaterOrEqual(g, len(f), 9, text)
		all[shard] = row{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8]}
	}
	return all
}

// entries returns what the index has to have of a row.
func (r row) entries(shard string) []string {
	list := []string{"v:" + r.version + ":" + shard}
	if r.promised != never {
		list = append(list, "p:"+r.promised+":"+r.version+":"+shard)
	}
	switch {
	case r.state == "o":
		return append(list, "n:"+r.owner+":"+r.version+":"+shard, "k:"+r.owner+":"+r.class+r.version+":"+shard)
	case r.owner != never:
		list = append(list, "n:"+r.owner+":"+r.version+":"+shard, "a:"+r.version+":"+shard)
		if r.till != "0" {
			list = append(list, "h:"+r.till+":"+shard)
		}
		return list
	case r.state == "w":
		return append(list, "w:"+r.till+":"+shard, "u:"+r.since+":"+shard)
	case r.state == "f":
		return append(list, "f:"+r.since+":"+shard)
	}
	return append(list, r.state+":"+r.version+":"+shard)
}

// audit checks that the index is what the rows say, and that members stand among donors and takers with the loads that they have.
func (g *group) audit() {
	g.Helper()
	want := []string{}
	loads, slow, drains, versions := make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]string)
	last, _ := strconv.ParseInt(g.hash(0)["last"], 10, 64) // 0 without a group
	for shard, r := range g.rows() {
		want = append(want, r.entries(shard)...)
		require.Empty(g, versions[r.version], "version of %s", shard)
		versions[r.version] = shard
		if r.state == "o" {
			loads[r.owner]++
		} else if r.owner != never {
			drains[r.owner]++
		}
		if r.promised != never {
			loads[r.promised]++
			if r.version < fmt.Sprintf("%016d", last-60*second) {
				slow[r.promised]++
			}
		}
	}
	index, _ := g.sorted(7)
	index = slices.DeleteFunc(index, func(entry string) bool { return strings.Contains("c: s: z:", entry[:2]) })
	slices.Sort(want)
	require.Equal(g, want, append([]string{}, index...))
	g.auditLoads(loads, slow, drains)
	g.auditVersions()
	for _, key := range g.keys {
		require.NotEqual(g, int64(-1), g.server.MustDo(g, "PTTL", key), "%s has no end", key)
	}
}

// auditVersions checks that all keys are of the newest version, and that it is another one if one of them has changed since the last audit.
// The ends change with each poll: they are of the time of the last call.
func (g *group) auditVersions() {
	g.Helper()
	settings := g.hash(0)
	newest := settings["newest"]
	if newest == "" {
		return // no group
	}
	number := func(n int) string {
		_, scores := g.sorted(n)
		return scores[""]
	}
	index, _ := g.sorted(7)
	server, err := strconv.ParseInt(settings["server"], 10, 64)
	require.NoError(g, err)
	require.Equal(g, []string{newest, newest, "-" + newest, "-" + newest, newest, "z:" + newest, strconv.FormatInt(2*server, 10)},
		[]string{g.hash(1)[""], number(3), number(4), number(5), g.hash(6)[""], index[len(index)-1], number(2)})
	now := fmt.Sprint(g.hash(1), g.hash(6), index)
	for _, n := range []int{3, 4, 5} {
		_, scores := g.sorted(n)
		now += fmt.Sprint(scores)
	}
	if newest == g.audited[0] {
		require.Equal(g, g.audited[1], now)
	}
	g.audited = [2]string{newest, now}
}

// auditLoads checks the loads. slow are the promises of drains that hang: they do not count, from the member's next poll on. What
// drains counts for the limit.
func (g *group) auditLoads(loads, slow, drains map[string]int) {
	g.Helper()
	_, donors := g.sorted(3)
	_, takers := g.sorted(4)
	_, proven := g.sorted(5)
	for number, record := range g.hash(1) {
		if len(number) != len(never) {
			continue
		}
		var state, isProven, requested, seen, said, id string
		var weight, limit, life, ranked int
		_, err := fmt.Sscan(record, &state, &weight, &limit, &life, &ranked, &isProven, &requested, &seen, &said, &id)
		require.NoError(g, err, record)
		if ranked < 0 || state == "d" {
			continue // it is silent, or over
		}
		load := ranked
		require.LessOrEqual(g, load, loads[number], "load of %s %s", number, record)
		require.GreaterOrEqual(g, load, loads[number]-slow[number], "load of %s %s", number, record)
		score := fmt.Sprintf("%.17g", float64(2*load+1)/float64(weight))
		if state != "l" || load+drains[number] >= limit {
			score = ""
		}
		require.Equal(g, score, takers[number], "%s %s takes", number, record)
		if isProven == "0" {
			score = ""
		}
		require.Equal(g, score, proven[number], "%s %s takes shards of the dead", number, record)
		score = fmt.Sprintf("%.17g", float64(2*load-1)/float64(weight))
		if state != "l" || load > limit {
			score = fmt.Sprint(1_000_000_000 + load)
		}
		if load == 0 {
			score = ""
		}
		require.Equal(g, score, donors[number], "%s %s gives", number, record)
	}
}
