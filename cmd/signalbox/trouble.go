// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// trouble is why a server refuses a probe of doctor that it was not made for. A probe that meets one knows nothing of what it was
// made for, except that the user has the right, if only writes are refused: a server checks rights first.
type trouble struct {
	begins   string // how the server's words begin
	ofWrites bool   // only commands that write are refused
	advice   string
}

//nolint:gochecknoglobals // a constant table
var troubles = []trouble{
	{begins: "OOM", ofWrites: true, advice: "give the server more memory (maxmemory), or free some: it grants nothing until then"},
	{begins: "NOREPLICAS", ofWrites: true, advice: "connect the replicas that min-replicas-to-write wants, or lower it: the server grants nothing until then"},
	{begins: "MISCONF", ofWrites: true, advice: "see the server's log and its disk: it cannot save its data, and grants nothing until it can"},
	{begins: "READONLY", ofWrites: true, advice: "name the primary: this is a replica"},
	{begins: "LOADING", advice: "wait until the server has loaded its data, and run this again"},
	{begins: "BUSY", advice: "end the script or the function that runs (SCRIPT KILL, FUNCTION KILL), and run this again"},
	{begins: "CLUSTERDOWN", advice: "mend the cluster (redis-cli --cluster check): it serves not all slots"},
	{begins: "MASTERDOWN", advice: "name the primary: this is a replica that has lost its own"},
	{begins: "MOVED", advice: "the server is a node of a cluster, which the client was not told, or whose slots move: grant +cluster|slots +cluster|shards, and run this again"},
	{begins: "TRYAGAIN", advice: "wait until the slots have moved, and run this again"},
	{begins: "NOAUTH", advice: "give the user and the password of now"},
	{begins: "WRONGPASS", advice: "give the user and the password of now"},
}

// troubleOf returns the trouble in the words of a server, or nil. Redis 6.2 puts a position and a minus before those of a script.
func troubleOf(words string) *trouble {
	words = strings.TrimPrefix(scriptPosition.ReplaceAllString(words, ""), "-")
	first, _, _ := strings.Cut(words, " ")
	for i := range troubles {
		if troubles[i].begins == first {
			return &troubles[i]
		}
	}
	return nil
}

// adviceFor returns what to do about the error of a probe. usual is the advice for a right that is missing.
func adviceFor(err error, usual string) string {
	words := wordsOf(err)
	switch t := troubleOf(words); {
	case words == "":
		return "see whether the server is overloaded, and the network, and run this again"
	case t != nil:
		return t.advice
	case parseRefusal(words) != notRefused:
		return usual
	}
	return "docs/refusals.md says what the server's words mean"
}
