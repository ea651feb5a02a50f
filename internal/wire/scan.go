// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// scanPatience is how long one node may take for one page of keys.
const scanPatience = 2 * time.Second

// Scan asks which keys there are.
type Scan struct {
	Match string // a glob pattern
	Type  string // of the keys; "" is any
	Count int    // how many keys the server examines for a page
}

// Scan yields the keys that match, a page at a time, of the server or of each primary of a cluster. A page is one
// SCAN: the server examines about Count keys and serves others in between. A key that is there from the beginning to
// the end is yielded at least once.
//
// If a node fails, one page has its address and the error, and the other nodes are scanned all the same. node is ""
// outside a cluster.
func (r *Runner) Scan(ctx context.Context, scan Scan, page func(node string, keys []string, err error) bool) {
	if !r.Clustered() {
		r.scanNode(ctx, r.client, scan, func(keys []string, err error) bool { return page("", keys, err) })
		return
	}
	nodes := r.client.Nodes()
	primaries, err := r.primaries(ctx, nodes)
	if err != nil {
		page("", nil, err)
		return
	}
	for _, node := range primaries {
		client := nodes[node]
		if client == nil {
			if !page(node, nil, errUnknownNode) {
				return
			}
			continue
		}
		if !r.scanNode(ctx, client, scan, func(keys []string, err error) bool { return page(node, keys, err) }) {
			return
		}
	}
}

// errUnknownNode says that a node has slots, and that the client has not called it yet, or takes it for dead.
var errUnknownNode = fmt.Errorf("%w: the client does not reach this node", errs.ErrRefused)

// scanNode yields the pages of one node. It reports whether the caller wants those of other nodes.
func (r *Runner) scanNode(ctx context.Context, client rueidis.Client, scan Scan, page func(keys []string, err error) bool) bool {
	for cursor := uint64(0); ; {
		entry, err := r.scanPage(ctx, client, scan, cursor)
		if err != nil {
			return page(nil, err)
		}
		if !page(entry.Elements, nil) {
			return false
		}
		if cursor = entry.Cursor; cursor == 0 {
			return true
		}
	}
}

func (r *Runner) scanPage(ctx context.Context, client rueidis.Client, scan Scan, cursor uint64) (rueidis.ScanEntry, error) {
	callers := ctx
	ctx, cancel := errs.WithTimeout(ctx, scanPatience)
	defer cancel()
	args := []string{strconv.FormatUint(cursor, 10), "MATCH", scan.Match, "COUNT", strconv.Itoa(scan.Count)}
	if scan.Type != "" {
		args = append(args, "TYPE", scan.Type)
	}
	// Arbitrary: the client repeats a command that it knows to be read-only for as long as ctx lasts.
	entry, err := asking(ctx, r, client, client.B().Arbitrary("SCAN").Args(args...).Build()).AsScanEntry()
	if err != nil && callers.Err() != nil {
		return entry, errs.Ended(callers)
	}
	return entry, errs.OfCall(ctx, Explain(err))
}

// asking sends a command without a key. It returns when ctx ends, also while the client connects.
func asking(ctx context.Context, r *Runner, client rueidis.Client, command rueidis.Completed) rueidis.RedisResult {
	return aside(ctx, &r.asides, func() rueidis.RedisResult {
		return client.Do(ctx, command)
	}, func(err error) rueidis.RedisResult {
		return rueidis.NewResult(rueidis.RedisMessage{}, err)
	})
}

// primaries returns the addresses of the nodes that have slots, in order. If those that the servers name are not those
// that the client uses, as behind a proxy, it returns all nodes of the client.
func (r *Runner) primaries(ctx context.Context, nodes map[string]rueidis.Client) ([]string, error) {
	var failures []error
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		found, err := r.primariesBy(ctx, node, nodes[node])
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			failures = append(failures, fmt.Errorf("node %s: %w", node, err))
		case slices.ContainsFunc(found, func(one string) bool { return nodes[one] != nil }):
			return found, nil
		default:
			return slices.Sorted(maps.Keys(nodes)), nil
		}
	}
	if len(failures) == 0 {
		return nil, errs.Join(errs.ErrRefused, errors.New("the client knows no node of the cluster"))
	}
	return nil, errs.Join(failures...)
}

// errSlots is the error of a node whose reply cannot be read.
var errSlots = errors.New("the reply to CLUSTER SLOTS cannot be read")

// primariesBy asks one node which nodes have slots.
func (r *Runner) primariesBy(ctx context.Context, node string, client rueidis.Client) ([]string, error) {
	ctx, cancel := errs.WithTimeout(ctx, scanPatience)
	defer cancel()
	ranges, err := asking(ctx, r, client, client.B().Arbitrary("CLUSTER", "SLOTS").Build()).ToArray()
	if err != nil {
		return nil, errs.OfCall(ctx, Explain(err))
	}
	host, _, _ := net.SplitHostPort(node)
	found := make(map[string]struct{})
	for i := range ranges {
		fields, err := ranges[i].ToArray() // first slot, last slot, primary, replicas
		if err != nil || len(fields) < 3 {
			return nil, errSlots
		}
		address, err := fields[2].ToArray() // host, port, id
		if err != nil || len(address) < 2 {
			return nil, errSlots
		}
		named, _ := address[0].ToString() // nil where the node does not know its own
		port, _ := address[1].AsInt64()
		if named == "" {
			named = host
		}
		found[net.JoinHostPort(named, strconv.FormatInt(port, 10))] = struct{}{}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
