// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// floor is what a run has to reach, or it shows nothing. Counts are added up over some names of a group, or over all of them.
type floor struct {
	step, group string
	names       []string
	says        string
	long, short int64
}

// ambiguous are faults after which a client cannot know whether its request was executed.
var (
	ambiguousReal    = []string{"CutBeforeRequest", "CutAfterRequest", "DelayRequest", "DelayReply", "SwallowRequest", "SwallowReply", "HalfOpen", "connections half open", "connections cut"}
	ambiguousVirtual = []string{"LoseRequest", "LoseReply", "HideRequest", "HideReply", "LateRequest", "LateReply", "Twice"}
)

// each are floors of each kind of lock.
var each = []floor{
	{step: "storm", group: "grants", says: "grants of each kind", long: 200, short: 20},
	{step: "histories", group: "operations", says: "operations judged of each kind", long: 200, short: 20},
}

// happened is a floor of each incident.
var happened = floor{step: "storm", group: "incidents", says: "it happened", long: 3, short: 1}

// incidents are those of a storm.
var incidents = []string{
	"OOM", "READONLY", "a failover loses writes", "a key is lost", "a node hands over and restarts", "a primary is cut off",
	"a process is killed", "a process is stopped", "a request or a reply is lost", "a server forgets its scripts", "a server freezes",
	"a server of the quorum is flushed", "a server restarts with its data", "a slot moves", "all is late", "connections are cut",
	"connections are half open", "connections are refused", "connections end", "each side loses another server", "messages are lost",
	"the server is flushed", "the server's clock is set", "two nodes lose each other",
}

var floors = []floor{
	{"controls", "lost updates", []string{"without tokens"}, "updates lost without tokens", 1, 1},
	{"controls", "updates", []string{"with tokens"}, "updates with tokens", 30, 30},
	{"controls", "refused updates", []string{"with tokens"}, "updates that the store refused", 1, 1},
	{"storm", "faults", ambiguousReal, "requests and replies of unknown fate", 100, 15},
	{"storm", "sound", []string{"stalls beyond a lease"}, "processes stopped beyond a lease", 20, 1},
	{"storm", "sound", []string{"holders stopped beyond a lease"}, "of them holders", 3, 1},
	{"storm", "sound", []string{"holds longer than a lease"}, "holds longer than a lease", 20, 3},
	{"storm", "sound", []string{"faults at once"}, "faults during others", 40, 5},
	{"storm", "faults", []string{"request refused: OOM", "request refused: READONLY"}, "requests refused by OOM or READONLY", 20, 2},
	{"storm", "faults", []string{"failover that loses writes"}, "failovers that lose writes", 6, 1},
	{"storm", "faults", []string{"message lost"}, "messages lost", 50, 3},
	{"storm", "sound", []string{"hand-offs under a fault"}, "hand-offs under a fault", 1000, 50},
	{"storm", "faults", []string{"slot moved", "node restarted in its turn"}, "slots moved, nodes restarted", 10, 2},
	{"histories", "operations", nil, "operations judged", 20000, 1000},
	{"virtual", "seeds", []string{"bad wires"}, "seeds of bad wires", 40, 4},
	{"virtual", "seeds", []string{"shards"}, "seeds of shards", 3, 1},
	{"virtual", "seeds", []string{"walks"}, "walks", 600, 100},
	{"virtual", "faults", ambiguousVirtual, "requests and replies of unknown fate, in virtual time", 1000, 50},
	{"virtual", "uses", nil, "uses in virtual time", 4000, 400},
	{"virtual", "replays", nil, "walks repeated with the same trace", 500, 100},
}

// allFloors returns the floors, those of each name apart.
func allFloors() []floor {
	all := slices.Clone(floors)
	apart := func(f floor, names []string) {
		for _, name := range names {
			all = append(all, floor{f.step, f.group, []string{name}, f.says + ": " + name, f.long, f.short})
		}
	}
	for _, f := range each {
		apart(f, kinds)
	}
	apart(happened, incidents)
	return all
}

// kinds are those of the library, and the layouts of others.
var kinds = []string{
	"reentrant", "fair", "rwlock", "semaphore", "countdown", "once", "multilock", "election", "redlock", "shards", "redisson", "setnx",
}

// mayNotBe are the groups of which each count has to be zero, and to be there for each kind.
var mayNotBe = []string{"overlaps", "falling tokens", "keys left", "goroutines left"}
