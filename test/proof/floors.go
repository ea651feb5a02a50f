// SPDX-License-Identifier: Apache-2.0

package main

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

// each is a floor of each kind of lock.
var each = floor{step: "storm", group: "grants", says: "grants of each kind", long: 200, short: 20}

var floors = []floor{
	{"controls", "lost updates", []string{"without tokens"}, "updates lost without tokens", 1, 1},
	{"storm", "faults", ambiguousReal, "requests and replies of unknown fate", 100, 15},
	{"storm", "sound", []string{"stalls beyond a lease"}, "processes stopped beyond a lease", 20, 1},
	{"storm", "faults", []string{"failover that loses writes"}, "failovers that lose writes", 6, 1},
	{"storm", "faults", []string{"message lost"}, "messages lost", 50, 3},
	{"storm", "sound", []string{"hand-offs under a fault"}, "hand-offs under a fault", 1000, 50},
	{"storm", "faults", []string{"slot moved", "node restarted in its turn"}, "slots moved, nodes restarted", 10, 2},
	{"histories", "histories", []string{"operations"}, "operations judged", 20000, 1000},
	{"virtual", "seeds", []string{"bad wires"}, "seeds of bad wires", 40, 4},
	{"virtual", "seeds", []string{"shards"}, "seeds of shards", 3, 1},
	{"virtual", "seeds", []string{"walks"}, "walks", 600, 100},
	{"virtual", "faults", ambiguousVirtual, "requests and replies of unknown fate, in virtual time", 1000, 50},
	{"virtual", "replays", nil, "walks repeated with the same trace", 500, 100},
}

// kinds are those of the library, and the layouts of others.
var kinds = []string{
	"reentrant", "fair", "rwlock", "semaphore", "countdown", "once", "multilock", "election", "redlock", "shards", "redisson", "setnx",
}

// mayNotBe are the groups of which each count has to be zero.
var mayNotBe = []string{"overlaps", "falling tokens", "keys left", "goroutines left"}
