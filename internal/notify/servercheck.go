// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"maps"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Outside a cluster an address is all that a client knows of its server. After a failover behind the address, calls may go to
// one server and messages come from another, and neither refuses anything. So whenever a connection for calls has ended
// that the client did not close, the server of the calls is asked whether it has the subscriptions of the session. If it
// lacks one, their connection is made anew. That is one command for each such end, and none while nothing is subscribed to.
//
// The reply may be wrong: one endpoint in front of many shards may ask one of them, and a proxy may know of no
// subscriptions. So the question is repeated for the new connection. If the subscriptions are found now, the servers did
// differ, and that is reported. If not, the reply means nothing, and the question is not asked again.

const (
	// maxCheckedNames bounds how many subscriptions are asked for.
	maxCheckedNames = 10
	// connLife is how long a connection lasts that a server does not let us ask about.
	connLife = 10 * time.Second
)

// serverCheck is the state of that check. The lock of the dispatcher guards it.
type serverCheck struct {
	requesting bool
	distrusted bool      // the server does not say what is subscribed to, or says what is not true
	lacking    *nodeConn // the connection that is made anew because the last reply lacked one of its subscriptions; or nil
}

// lastDeparture returns a number that is another one after a connection for calls has ended.
func (d *Dispatcher) lastDeparture() uint64 { return wire.LastEvent(wire.ConnEnded, d.client) }

// checkServerLocked asks the server of the calls for the subscriptions, if connections ended since it was asked.
func (d *Dispatcher) checkServerLocked() {
	t, conn := &d.mu.serverCheck, d.mu.conns[""]
	if d.server.Clustered() || conn == nil || t.requesting || d.mu.closed {
		return
	}
	departed := d.lastDeparture()
	if departed == conn.departed && t.lacking == nil || t.lacking == conn {
		return
	}
	if t.distrusted {
		if time.Since(conn.madeAt) > connLife {
			signal(conn.replace)
		}
		return
	}
	names := conn.subscribedLocked()
	if len(names) == 0 {
		return // the first confirmation will come, or the end of the connection
	}
	t.requesting = true
	d.running.Go(func() { d.checkServer(conn, names, departed) })
}

func (nc *nodeConn) subscribedLocked() (names []string) {
	for c := range nc.channels {
		if c.state == subscribed && len(names) < maxCheckedNames {
			names = append(names, c.name)
		}
	}
	return names
}

func (d *Dispatcher) checkServer(conn *nodeConn, names []string, departed uint64) {
	ctx, cancel := errs.WithTimeout(d.ctx, locatePatience)
	defer cancel()
	outcome := d.server.RunMany(ctx, []wire.Call{{Command: "PUBSUB", Args: append([]string{"NUMSUB"}, names...)}})[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &d.mu.serverCheck
	t.requesting = false
	switch {
	case outcome.Err != nil:
		_, replied := rueidis.IsRedisErr(outcome.Err)
		t.distrusted = errors.Is(outcome.Err, errs.ErrDenied) || replied && wire.Judge(outcome.Err) != wire.Temporary
		return
	case d.mu.conns[""] != conn, d.lastDeparture() != departed:
		return // a connection has ended meanwhile, maybe the one that was asked about
	}
	conn.departed = departed
	still := make(map[string]bool)
	for c := range conn.channels {
		still[c.name] = c.state == subscribed
	}
	lacks := false
	for i, name := range names {
		lacks = lacks || outcome.Reply.Int(2*i+1) == 0 && still[name]
	}
	d.checkedLocked(conn, lacks)
}

// checkedLocked handles the reply to a question about conn. lacks says that the server of the calls lacks a subscription.
func (d *Dispatcher) checkedLocked(conn *nodeConn, lacks bool) {
	t := &d.mu.serverCheck
	repeated := t.lacking != nil
	t.lacking = nil
	switch {
	case lacks && repeated:
		t.distrusted = true
	case lacks:
		t.lacking = conn
		signal(conn.replace)
	case repeated:
		d.running.Go(func() { d.monitor.ServersDiffer() })
	}
}

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
