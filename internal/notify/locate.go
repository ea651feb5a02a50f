// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// locatePatience bounds a question to one node.
const locatePatience = 2 * time.Second

// locateAll returns the nodes of channels, as far as they are known: the one that the client talks to, or in
// a cluster those that have the slots. It returns only nodes that the client knows.
//
// It asks a node with a script that names the channel as a key. A node without the slot replies with the
// address of the primary that has it. That needs no right beyond the one for scripts. A subscription cannot
// show that: a replica accepts it, and gets the messages later than its primary, or never.
func (d *Dispatcher) locateAll(ctx context.Context, channels []*channel) (map[*channel]string, error) {
	found := make(map[*channel]string, len(channels))
	if !d.server.Clustered() {
		for _, c := range channels {
			found[c] = ""
		}
		return found, nil
	}
	nodes := d.client.Nodes()
	var failures []error
	for _, node := range d.inOrder(nodes) {
		err := d.locate(ctx, node, nodes, channels, found)
		if err == nil {
			failures = nil
			break
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	d.makeKnown(ctx, found, nodes)
	return found, errs.Join(failures...)
}

// inOrder returns the nodes in the order in which to ask them: first the nodes with a connection, which reply;
// last the nodes that are left alone.
func (d *Dispatcher) inOrder(nodes map[string]rueidis.Client) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var connected, others, backingOff []string
	for node := range nodes {
		switch {
		case !d.backOffUntilLocked(node, now).IsZero():
			backingOff = append(backingOff, node)
		case d.mu.conns[node] != nil:
			connected = append(connected, node)
		default:
			others = append(others, node)
		}
	}
	return append(append(connected, others...), backingOff...)
}

// locate asks one node. It fails if the node does not know: it is away, starts, or is cut off.
func (d *Dispatcher) locate(ctx context.Context, node string, nodes map[string]rueidis.Client, channels []*channel, found map[*channel]string) error {
	client := nodes[node]
	ctx, cancel := context.WithTimeout(ctx, locatePatience)
	defer cancel()
	commands := make([]rueidis.Completed, len(channels))
	for i, c := range channels {
		commands[i] = client.B().Evalsha().Sha1(scripts.SessionHello.SHA1).Numkeys(1).Key(c.name).Build()
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		err := result.Error()
		refusal, refused := rueidis.IsRedisErr(err)
		switch {
		case err == nil:
			found[channels[i]] = node
		case !refused:
			return err
		default:
			if moved, ok := refusal.IsMoved(); ok {
				found[channels[i]] = wire.KnownAs(moved, node, nodes)
				continue
			}
			if refusal.IsClusterDown() || refusal.IsLoading() {
				return err
			}
			// It would have executed the script, but the text or a right is missing. If the node only has the
			// right to refuse, the subscription itself will be redirected.
			found[channels[i]] = node
		}
	}
	return nil
}

// makeKnown removes the nodes that the client does not know from found. Before, it makes the client call them with a
// keyed script whose redirection the client follows. So the client knows them when they are asked for next.
func (d *Dispatcher) makeKnown(ctx context.Context, found map[*channel]string, nodes map[string]rueidis.Client) {
	unknownNodes := make(map[string]wire.Call)
	for c, node := range found {
		if nodes[node] == nil {
			unknownNodes[node] = wire.Call{Script: scripts.SessionHello, Keys: []string{c.name}}
			delete(found, c)
		}
	}
	if len(unknownNodes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, locatePatience)
	defer cancel()
	calls := make([]wire.Call, 0, len(unknownNodes))
	for _, call := range unknownNodes {
		calls = append(calls, call)
	}
	d.server.RunMany(ctx, calls)
}
