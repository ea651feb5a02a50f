// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/settings"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Tune sets in o what signalbox wants of a client. Call it before rueidis.NewClient where the
// client is your own; Dial does. It changes
//
//   - AlwaysPipelining to true: without it a call on an idle connection notices the end of its
//     context late, after ConnWriteTimeout at the worst;
//   - DisableCache to true: nothing here is cached on the client's side, and the subcommand
//     that sets caching up needs a right of its own;
//   - PipelineMultiplex to -1, unless it is set: one connection for all calls. The client would
//     open up to four to each node of a cluster, each when it first picks it;
//   - ConnWriteTimeout to 2 s, unless it is set: how long a connection on which nothing is
//     answered counts as alive. The client's own 10 s are a third of the default lease;
//   - ClientSetInfo to none, unless it is set: a connection is opened with one command instead of three, which
//     needs no right, and the words of a server that refuses it for too many clients are not lost in
//     the end of the connection that follows;
//   - DialCtxFn to one whose connections, made by it where it is set, tell what they read only after they were written to: a
//     server with too many clients says so unasked, at which the client would panic now and then. They also report
//     that they were closed: see below. The context of a call ends no attempt to connect, Dialer.Timeout does;
//   - Dialer.KeepAlive to 1 s, unless it is set: how often an idle connection is probed;
//   - Dialer.Timeout to 2 s, unless it is set: how long a connection may take to be made, and its first
//     reply to come. If a server stopped and another took over, calls fail or wait for that long. The
//     client's own is 5 s;
//   - Sentinel.Dialer.KeepAlive and Sentinel.Dialer.Timeout to those of Dialer, unless they are set: the
//     client's own are no limits at all;
//   - Sentinel.TopologyRefreshInterval to 10 s, unless it is set: how often the client asks the sentinels who is
//     the primary. It learns of a new one by a message, and where that is lost stays with the old one for
//     good.
//
// With a tuned client every call returns when its context ends, and Unlock after a second, also while
// the client connects. Two exceptions can last longer, by twice the Dialer.Timeout: a call that a
// cluster redirects to a node that the client is not connected to; and, if the client is not tuned or
// has a DialFn, the first call after a connection broke (10 s with the client's own timeout). The
// client connects inside of such a call and looks at no context meanwhile.
//
// A wire that has gone silent is given up after KeepAlive and ConnWriteTimeout together, some 3 s.
// Renewed leases that are to outlive that should last 10 s or more, and longer than a failover by as much.
func Tune(o *rueidis.ClientOption) {
	o.AlwaysPipelining = true
	o.DisableCache = true
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1
	}
	if o.ClientSetInfo == nil {
		o.ClientSetInfo = rueidis.DisableClientSetInfo
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = 2 * time.Second
	}
	if o.DialCtxFn != nil || o.DialFn == nil {
		o.DialCtxFn = wire.SpeakFirst(o.DialCtxFn)
	}
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = time.Second
	}
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = 2 * time.Second
	}
	if o.Sentinel.Dialer.KeepAlive == 0 {
		o.Sentinel.Dialer.KeepAlive = o.Dialer.KeepAlive
	}
	if o.Sentinel.Dialer.Timeout == 0 {
		o.Sentinel.Dialer.Timeout = o.Dialer.Timeout
	}
	if o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = 10 * time.Second
	}
}

func collect(options []SessionOption) settings.Session {
	set := settings.Default()
	for _, option := range options {
		if option != nil {
			option(&set)
		}
	}
	return set
}
