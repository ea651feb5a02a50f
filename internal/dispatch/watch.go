// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"maps"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// watchEvery is the pause between two looks at whom the client talks to. They cost no call.
const watchEvery = time.Second

// watch sees to it that links follow the client, while there are links. A server that the client has
// left need not end our connection: a primary that sentinels have replaced, or a node that was taken
// out of the cluster, may live on, and what is published elsewhere does not reach it any more.
type watch struct {
	d     *Dispatcher
	entry timers.Entry
}

// Fire implements timers.Event.
func (w *watch) Fire() {
	d := w.d
	nodes := d.client.Nodes()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.mu.links {
		if l.known != nil && !d.standsLocked(l, nodes) {
			signal(l.gone)
		}
	}
	if len(d.mu.links) > 0 && !d.mu.closed {
		d.timers.Schedule(&w.entry, watchEvery)
	}
}

// standsLocked reports whether the client still talks to the server of a link: in a cluster to that
// node, otherwise to whom it talked to when the connection was made.
func (d *Dispatcher) standsLocked(l *link, nodes map[string]rueidis.Client) bool {
	if d.clustered {
		return nodes[l.node] != nil
	}
	return maps.EqualFunc(l.known, nodes, func(struct{}, rueidis.Client) bool { return true })
}
