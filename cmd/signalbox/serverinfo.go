// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// serverInfo has the fields of INFO; nil if the server does not say them.
type serverInfo map[string]string

func readInfo(ctx context.Context, client rueidis.Client) (serverInfo, error) {
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if err != nil {
		return nil, err
	}
	fields := make(serverInfo)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

// number returns a field that is a number, 0 if it is missing.
func (i serverInfo) number(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64)
	return n
}

// relatives are servers other than Redis, by the field of INFO with their version.
//
//nolint:gochecknoglobals // a constant table
var relatives = []struct{ field, product string }{
	{"valkey_version", "Valkey"},
	{"dragonfly_version", "Dragonfly"},
	{"garnet_version", "Garnet"},
	{"kvrocks_version", "Kvrocks"},
	{"redis_version", "Redis"}, // last: the others have it as well
}

func (n *node) checkServer(ctx context.Context) finding {
	f := finding{Check: "server", Status: statusOK}
	product, version := "", ""
	for _, r := range relatives {
		if version = n.info[r.field]; version != "" {
			product = r.product
			break
		}
	}
	if product == "" {
		product, version = n.greeting(ctx)
	}
	switch product {
	case "":
		f.Status = statusWarning
		f.Found, f.Advice = n.unsaid("it does not say its version", "grant +info")
		return f
	case "Redis", "Valkey":
	default:
		f.Status, f.Advice = statusWarning, "signalbox is not tested with it: docs/servers.md has what is known"
	}
	f.Found = product + " " + version
	return f
}

// unsaid returns the finding about what INFO does not say. usual is the advice if a right is missing.
func (n *node) unsaid(found, usual string) (text, advice string) {
	if n.infoErr == nil || parseRefusal(wordsOf(n.infoErr)) != notRefused {
		return found, usual
	}
	return found + ": " + n.infoErr.Error(), adviceFor(n.infoErr, usual)
}

// greeting returns what HELLO says, which needs no right.
func (n *node) greeting(ctx context.Context) (product, version string) {
	fields, err := n.client.Do(ctx, n.client.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		return "", ""
	}
	server, version := fields["server"], ""
	if v, has := fields["version"]; has {
		version, _ = v.ToString()
	}
	product, _ = server.ToString()
	if product != "" {
		product = strings.ToUpper(product[:1]) + product[1:]
	}
	return product, version
}

// fullFrom is the share of memory or of connections from which a server is nearly full, in percent.
const fullFrom = 90

func (n *node) checkMemory() finding {
	policy, limit, used := n.info["maxmemory_policy"], n.info.number("maxmemory"), n.info.number("used_memory")
	f := finding{Check: "memory", Status: statusOK}
	limited := "maxmemory " + strconv.FormatInt(limit>>20, 10) + " MiB"
	if limit == 0 {
		limited = "no maxmemory"
	}
	f.Found = fmt.Sprintf("maxmemory-policy %s, %s", policy, limited)
	const setPolicy = "set maxmemory-policy noeviction: an evicted key is a lock that is granted twice"
	switch {
	case policy == "":
		f.Status = statusWarning
		f.Found, f.Advice = n.unsaid("the server does not say whether it evicts keys",
			"grant +info, or see for yourself that maxmemory-policy is noeviction")
	case policy != "noeviction" && limit > 0:
		f.Status, f.Advice = statusProblem, setPolicy
	case policy != "noeviction":
		f.Status, f.Advice = statusWarning, setPolicy+", as soon as maxmemory is set"
	case limit > 0 && used >= limit/100*fullFrom:
		f.Status = statusWarning
		f.Found += fmt.Sprintf(", over %d %% are in use", fullFrom)
		f.Advice = "give it more memory: a full server refuses to grant locks"
	}
	return f
}

func (n *node) checkPersistence() []finding {
	if _, said := n.info["aof_enabled"]; !said {
		return nil
	}
	f := finding{Check: "persistence", Status: statusOK}
	replicas, file := n.info.number("connected_slaves"), n.info.number("aof_enabled") == 1
	words := "no append-only file"
	if file {
		words = "an append-only file"
	}
	f.Found = fmt.Sprintf("%s, replicas: %d", words, replicas)
	switch {
	case n.info["aof_last_write_status"] == "err" || n.info["rdb_last_bgsave_status"] == "err":
		f.Status, f.Found = statusWarning, f.Found+"; it failed to write to its disk"
		f.Advice = "see its log and its disk: it may refuse all writes (MISCONF)"
	case replicas > 0:
		f.Advice = "a failover can lose the newest grants: use tokens, WithReplicas, or min-replicas-to-write (docs/guarantees.md)"
	case file:
		f.Advice = "appendfsync always, or tokens, if a loss of power must not grant a lock twice"
	default:
		f.Advice = "a restart forgets all locks: use tokens, or appendonly yes with appendfsync always (docs/guarantees.md)"
	}
	return []finding{f}
}

func (n *node) checkConnections() []finding {
	most, now := n.info.number("maxclients"), n.info.number("connected_clients")
	if most == 0 {
		return nil
	}
	f := finding{Check: "connections", Status: statusOK, Found: fmt.Sprintf("fewer than %d %% of maxclients %d", fullFrom, most)}
	if now >= most*fullFrom/100 {
		f.Status, f.Found = statusWarning, fmt.Sprintf("%d of maxclients %d", now, most)
		f.Advice = "raise maxclients: a session needs two connections"
	}
	return []finding{f}
}

// Limits from which a time is worth a word.
const (
	slowRoundTrip    = 100 * time.Millisecond
	tooSlowRoundTrip = time.Second
	largeDistance    = time.Second
)

// checkTimes measures round trips, and how far the clocks of the host and of the server are apart.
func (n *node) checkTimes(ctx context.Context) []finding {
	const tries = 9
	var trips []time.Duration
	var distance, margin time.Duration // of the quickest request
	clockKnown := false
	var refusal error // why the server does not say its time
	for range tries {
		start := time.Now()
		words, err := n.client.Do(ctx, n.client.B().Time().Build()).AsIntSlice()
		trip := time.Since(start)
		if err != nil && wordsOf(err) == "" {
			break // no reply
		}
		trips, refusal = append(trips, trip), err
		if err == nil && len(words) == 2 && (!clockKnown || trip/2 < margin) {
			server := time.Unix(words[0], words[1]*int64(time.Microsecond))
			clockKnown, margin, distance = true, trip/2, server.Sub(start.Add(trip/2).Round(0))
		}
	}
	if len(trips) < tries {
		return []finding{{Check: "round trip", Status: statusProblem, Found: "a request got no reply", Advice: "see whether the server is overloaded, and the network"}}
	}
	slices.Sort(trips)
	return []finding{roundTripFinding(trips[tries/2]), clockFinding(distance, margin, clockKnown, refusal)}
}

func roundTripFinding(median time.Duration) finding {
	f := finding{Check: "round trip", Status: statusOK, Found: median.Round(10*time.Microsecond).String() + ", median of 9"}
	switch {
	case median >= tooSlowRoundTrip:
		f.Status = statusProblem
		f.Advice = "use a server that is nearer: the first renewal comes too late, so leases are lost; WithFirstLease can bridge that"
	case median >= slowRoundTrip:
		f.Status, f.Advice = statusWarning, "use a server in the same region: each lock costs a round trip or two"
	}
	return f
}

func clockFinding(distance, margin time.Duration, known bool, refusal error) finding {
	f := finding{Check: "clock", Status: statusOK}
	side := "ahead of"
	if distance < 0 {
		side = "behind"
	}
	f.Found = fmt.Sprintf("the server is %s %s this host, within %s", distance.Abs().Round(100*time.Microsecond), side, margin.Round(10*time.Microsecond))
	switch {
	case !known && troubleOf(wordsOf(refusal)) != nil:
		f.Status, f.Found, f.Advice = statusWarning, "the server does not say its time: "+refusal.Error(), adviceFor(refusal, "")
	case !known:
		f.Status, f.Found, f.Advice = statusWarning, "the server does not say its time", "grant +time"
	case distance.Abs()-margin >= largeDistance:
		f.Status = statusWarning
		f.Advice = "set both clocks by NTP, slowly: locks never compare them, but a step of the server's clock ends leases early"
	}
	return f
}
