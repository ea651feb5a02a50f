// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"maps"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// followInterval is the pause between two comparisons with the client's servers. They cost no call.
const followInterval = time.Second

// clientFollower makes connections follow the client, while there are some. A server that the client has left need not end
// our connection: a primary that sentinels have replaced, or a node that was removed from the cluster, may
// run on, and no longer receives what is published elsewhere.
type clientFollower struct {
	d     *Dispatcher
	entry timers.Timer
}

// Fire implements timers.Firer.
func (f *clientFollower) Fire() {
	d := f.d
	nodes, now := d.client.Nodes(), time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.mu.conns {
		if conn.clientNodes != nil && !d.isCurrentLocked(conn, nodes) || conn.hasManyDroppedLocked(now) {
			signal(conn.replace)
		}
	}
	d.checkServerLocked()
	if len(d.mu.conns) > 0 && !d.mu.closed {
		d.timers.Schedule(&f.entry, followInterval)
	}
}

// isCurrentLocked reports whether the client still talks to the server of a connection: in a cluster to that node,
// otherwise to the server that it used when the connection was made.
func (d *Dispatcher) isCurrentLocked(conn *nodeConn, nodes map[string]rueidis.Client) bool {
	if d.server.Clustered() {
		return nodes[conn.node] != nil
	}
	return maps.EqualFunc(conn.clientNodes, nodes, func(struct{}, rueidis.Client) bool { return true })
}
