// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/pprof"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	firstPause, lastPause = 10 * time.Millisecond, 5 * time.Second
	// maxChannels bounds what goes in one pipeline.
	maxChannels = 500
	// freeMoves is how often a channel follows a redirection at once. Nodes that point at each other
	// while a slot moves are asked again after pauses.
	freeMoves = 3
	// failsToReport is how many failures in a row to place a channel are worth a line in the log.
	failsToReport = 6
)

// nodeBackOff is how long a node is left alone after its connection broke or could not be made.
type nodeBackOff struct {
	pause time.Duration // the next pause
	until time.Time
}

// assignLocked gives a channel to the connection of its node if the node is known, and to the assigner otherwise.
func (d *Dispatcher) assignLocked(c *channel) {
	node, known := d.nodeLocked(c)
	now := time.Now()
	if known && !now.Before(c.notBefore) && d.backOffUntilLocked(node, now).IsZero() {
		d.assignToLocked(c, node)
		return
	}
	d.mu.unassigned = append(d.mu.unassigned, c)
	d.wakeAssignerLocked()
}

// nodeLocked returns which node a channel belongs to, as far as that is known without asking.
// Outside a cluster the node is the one that the client talks to, and has no name.
func (d *Dispatcher) nodeLocked(c *channel) (node string, known bool) {
	if !d.server.Clustered() {
		return "", true
	}
	if c.channelType == plain {
		for node = range d.mu.conns { // any node will do, and one of these needs no further connection
			return node, true
		}
	}
	node, known = d.mu.slots[c.slot]
	return node, known
}

// backOffUntilLocked returns until when a node is left alone, or the zero time.
func (d *Dispatcher) backOffUntilLocked(node string, now time.Time) time.Time {
	if r := d.mu.backOffs[node]; r != nil && now.Before(r.until) {
		return r.until
	}
	return time.Time{}
}

// backOffLocked leaves a node alone after its connection has ended, and returns until when. The pause grows
// each time, unless the connection lasted: after a connection that lasted four times as long as the pause before
// it, the pauses start over. Otherwise the pause is a quarter of the time that the connection lasted, if
// that is long enough for a pause. So a node that accepts subscriptions leaves its waiters without
// messages for at most a fifth of the time, however often the connection breaks.
func (d *Dispatcher) backOffLocked(conn *nodeConn) time.Time {
	now := time.Now()
	lasted := time.Duration(0)
	if !conn.confirmed.IsZero() {
		lasted = now.Sub(conn.confirmed)
	}
	r := d.mu.backOffs[conn.node]
	switch {
	case r == nil || lasted >= 4*r.pause || now.Sub(conn.madeAt) > lastPause:
		r = &nodeBackOff{pause: firstPause}
		d.mu.backOffs[conn.node] = r
	case lasted >= 4*firstPause:
		r.pause = lasted / 4
	}
	r.until = now.Add(jittered(r.pause))
	r.pause = min(r.pause*2, lastPause)
	return r.until
}

func jittered(pause time.Duration) time.Duration { return pause/2 + rand.N(pause) }

// assignToLocked gives a channel to the connection of a node, which is made if necessary.
func (d *Dispatcher) assignToLocked(c *channel, node string) {
	conn := d.mu.conns[node]
	if conn == nil {
		conn = d.connLocked(node)
	}
	c.conn, c.state = conn, assigned
	conn.channels[c] = struct{}{}
	conn.wanted = append(conn.wanted, c)
	conn.notify()
}

// wakeAssignerLocked makes sure that an assigner handles the unassigned channels: the running one, or a new
// one. The assigner ends under the same lock hold under which it finds no such channel left, so each channel is
// either seen by it or starts the next assigner.
func (d *Dispatcher) wakeAssignerLocked() {
	switch {
	case d.mu.closed:
	case d.mu.assigning:
		signal(d.unassigned)
	case len(d.mu.unassigned) > 0:
		d.mu.assigning = true
		d.running.Go(func() {
			pprof.SetGoroutineLabels(d.ctx)
			d.assign(d.ctx)
		})
	}
}

// assign is the assigner: it finds connections for the unassigned channels, and ends when all have one.
func (d *Dispatcher) assign(ctx context.Context) {
	for {
		due, pause, idle := d.due()
		switch {
		case idle:
			return
		case len(due) > 0:
			d.assignAll(ctx, due)
			continue
		}
		timer := time.NewTimer(pause)
		labelled(ctx, func() {
			select {
			case <-timer.C:
			case <-d.unassigned:
			case <-ctx.Done():
			}
		})
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// due removes the channels that can be assigned now, or returns for how long none can. idle: no channel is
// unassigned, and the caller stops.
func (d *Dispatcher) due() (due []*channel, pause time.Duration, idle bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	pause = 2 * lastPause
	left := d.mu.unassigned[:0]
	for _, c := range d.mu.unassigned {
		switch wait := c.notBefore.Sub(now); {
		case c.dropped:
		case wait > 0:
			pause = min(pause, wait)
			left = append(left, c)
		case len(due) == maxChannels:
			left = append(left, c)
		default:
			due = append(due, c)
		}
	}
	clear(d.mu.unassigned[len(left):])
	d.mu.unassigned = left
	if len(due)+len(left) == 0 {
		d.mu.assigning = false
		d.mu.unassigned = nil
		return nil, 0, true
	}
	return due, pause, false
}

// assignAll gives channels to connections. Channels whose node is left alone, or is not known, are left for later.
func (d *Dispatcher) assignAll(ctx context.Context, channels []*channel) {
	nodes, err := d.locateAll(ctx, channels)
	if ctx.Err() != nil {
		return
	}
	d.recordNodes(channels, nodes, errs.Join(errNoNode, err))
}

// errNoNode says that the node of a channel is not known, or is not one of the client's.
var errNoNode = errors.New("the nodes of the locks are not known")

// recordNodes records the nodes that channels were found to belong to. Channels without a node in spite of many
// tries receive no messages, because of why.
func (d *Dispatcher) recordNodes(channels []*channel, nodes map[*channel]string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		return
	}
	now := time.Now()
	var lost []*channel
	for _, c := range channels {
		node, found := nodes[c]
		switch {
		case c.dropped:
		case !found:
			lost = append(lost, c)
		default:
			if c.notBefore = d.backOffUntilLocked(node, now); !c.notBefore.IsZero() {
				d.mu.unassigned = append(d.mu.unassigned, c)
				continue
			}
			if d.server.Clustered() && c.channelType == sharded {
				d.mu.slots[c.slot] = node
			}
			d.assignToLocked(c, node)
		}
	}
	d.retryLaterLocked(lost)
	for _, c := range lost {
		if c.fails >= failsToReport {
			c.reportUnsubscribedLocked(why)
		}
	}
}

// retryLaterLocked leaves channels unassigned for a pause that is longer each time. It is the same for all of them, so that
// they are assigned together again.
func (d *Dispatcher) retryLaterLocked(channels []*channel) {
	if len(channels) == 0 {
		return
	}
	fails := 0
	for _, c := range channels {
		c.fails++
		fails = max(fails, c.fails)
	}
	again := time.Now().Add(jittered(min(firstPause<<min(fails-1, 10), lastPause)))
	for _, c := range channels {
		c.notBefore = again
		d.mu.unassigned = append(d.mu.unassigned, c)
	}
	d.wakeAssignerLocked()
}

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
		commands[i] = client.B().Evalsha().Sha1(wire.HelloScript.SHA1).Numkeys(1).Key(c.name).Build()
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
			unknownNodes[node] = wire.Call{Script: wire.HelloScript, Keys: []string{c.name}}
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
