// SPDX-License-Identifier: Apache-2.0

package dispatch

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
	d.checkServerLocked(nodes)
	if len(d.mu.conns) > 0 && !d.mu.closed {
		d.timers.Schedule(&f.entry, followInterval)
	}
}

// isCurrentLocked reports whether the client still talks to the server of a connection: in a cluster to that node,
// otherwise to the server that it used when the connection was made.
func (d *Dispatcher) isCurrentLocked(conn *nodeConn, nodes map[string]rueidis.Client) bool {
	if d.clustered {
		return nodes[conn.node] != nil
	}
	return maps.EqualFunc(conn.clientNodes, nodes, func(struct{}, rueidis.Client) bool { return true })
}

// Outside a cluster an address is all that a client knows of its server. After a failover behind the address, calls may go to
// one server and messages come from another, and neither refuses anything. So whenever a connection for calls has ended
// that the client did not close, the server of the calls is asked whether it has the subscriptions of the session. If it
// lacks one, their connection is made anew. That is one command for each such end, and none while nothing is subscribed to.
//
// The reply may be wrong: one endpoint in front of many shards may ask one of them, and a proxy may know of no
// subscriptions. So the question is repeated for the new connection. If the subscriptions are found now, the servers did
// differ, and that is reported. If not, the reply means nothing, and the question is not asked again.
