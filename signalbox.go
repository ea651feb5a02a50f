// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"crypto/tls"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Tune sets in o what signalbox needs of a client. If the client is your own, call Tune before
// rueidis.NewClient; Dial calls it. Tune changes
//
//   - AlwaysPipelining to true: without it a call on an idle connection notices the end of its
//     context late, after ConnWriteTimeout at the worst;
//   - DisableAutoPipelining to false, which would undo that;
//   - SendToReplicas, ReplicaSelector, ReadNodeSelector, ReplicaOnly and Standalone to none: locks are
//     at the primary, and so are their messages. Read from replicas with a client of your own;
//   - DisableCache to true: signalbox caches nothing in the client, and the subcommand that sets
//     caching up needs a right of its own;
//   - PipelineMultiplex to -1, unless it is set: one connection for all calls. The client would
//     open up to four to each node of a cluster, each when it first picks it;
//   - ConnWriteTimeout to 2 s, unless it is set: how long a connection without replies counts as
//     alive. The client's own 10 s are a third of the default lease;
//   - ClientSetInfo to none, unless it is set: the client then opens a connection with one command
//     instead of three, which needs no right. If the server refuses the connection for too many
//     clients, its words are not lost when the connection closes;
//   - ConnLifetime to -1, and what it was to how long a connection is used: 5 s if it is 0, without
//     end if it is negative. So a client follows its address, also if the old server lives. Another
//     connection takes its place between two requests, with the credentials of now, if the server
//     accepts it. If not, the log says why, and it is tried again at the next age. The client's own
//     way would send a request again that may have been executed. Connections with a subscription or
//     a transaction, those to nodes of a cluster, and those on which the program sent AUTH stay;
//   - DialCtxFn to one that wraps the connections, also those of a DialCtxFn or DialFn that is set.
//     If there is a TLSConfig, a connection that such a function returns without TLS is refused
//     before a byte is written. So are connections to sentinels that get a password and have no
//     Sentinel.TLSConfig: the TLSConfig is for the servers alone. Connections are left if the server says that it is the wrong one, for
//     example with READONLY. After a failure they are made at most 20 times a second. They return what
//     they read only after the first write: a server with too many clients replies before it is
//     asked, and the client could panic then. They also report that they were closed, so that calls can return in time (see
//     below). The context of a call does not end an attempt to connect; Dialer.Timeout does. A proxy
//     that refuses HELLO in words of its own is served without it;
//   - AuthCredentialsFn to one that marks its errors: nothing was sent. It is called for each new
//     connection, and fails if it panics, or takes longer than 5 s and Dialer.Timeout. An error at
//     RefreshAfter ends no connection, nor does a server that refuses what it returned then: the log
//     says so, and it is called again. A subscribed
//     connection in RESP2, which refuses AUTH, is made anew if the credentials have changed. It is not
//     called for sentinels: they have a user and a password of their own, Sentinel.Username and
//     Sentinel.Password, or what the function of WithSentinelCredentials returns;
//   - TLSConfig.ClientSessionCache to one, unless it is set: the handshakes after the first are short.
//     A short one calls no GetClientCertificate and no VerifyPeerCertificate, so with these it stays nil;
//   - Dialer.KeepAlive to 1 s, unless it is set: how often an idle connection is probed;
//   - Dialer.Timeout to 2 s, unless it is set: how long connecting may take, and then the first
//     reply. If a server stopped and another took over, calls fail or wait for that long. The
//     client's own is 5 s;
//   - Sentinel.Dialer.KeepAlive and Sentinel.Dialer.Timeout to those of Dialer, unless they are
//     set: the client's own are no limits at all;
//   - Sentinel.TopologyRefreshInterval to 10 s, unless it is set: how often the client asks the
//     sentinels for the primary. A message names a new primary. If that message is lost, an
//     untuned client stays with the old primary for good.
//
// A client that is not tuned stays on a connection until the server or the network ends it: after a
// failover behind one address it may stay with a demoted primary for good.
//
// With a tuned client every call returns when its context ends, and Unlock after a second, even
// while the client connects. Two kinds of call can take longer, by twice the Dialer.Timeout:
//
//   - a call that a cluster redirects to a node that the client is not connected to;
//   - the first call after a connection broke, if the client is not tuned. With the client's own
//     timeout that is 10 s.
//
// The client connects inside of such a call, and does not check the call's context meanwhile.
//
// The client gives up a silent connection after KeepAlive and ConnWriteTimeout together, about 3 s.
// To survive that, a renewed lease needs 10 s or more; to survive a failover, it needs that much
// more than the failover takes.
func Tune(o *rueidis.ClientOption) { _ = tune(o, wire.GuardedDialer(o), nil) }

// tune is Tune with a dialer. It returns what makes the connections.
func tune(o *rueidis.ClientOption, dialer wire.DialFunc, ofSentinels wire.CredentialsFunc) *wire.Connector {
	o.AlwaysPipelining, o.DisableAutoPipelining = true, false
	o.SendToReplicas, o.ReplicaSelector, o.ReadNodeSelector = nil, nil, nil //nolint:staticcheck // ReplicaSelector is deprecated, and works
	o.ReplicaOnly, o.Standalone = false, rueidis.StandaloneOption{}
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
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = time.Second
	}
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = 2 * time.Second
	}
	connector := tuneConnections(o, dialer, ofSentinels)
	if o.Sentinel.Dialer.KeepAlive == 0 {
		o.Sentinel.Dialer.KeepAlive = o.Dialer.KeepAlive
	}
	if o.Sentinel.Dialer.Timeout == 0 {
		o.Sentinel.Dialer.Timeout = o.Dialer.Timeout
	}
	if o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = 10 * time.Second
	}
	return connector
}

// connLifetime is how long a connection is used unless the options say it. A hold that was copied to the server to which
// the address leads by then is lost if less than this and a renewal's interval was left of it.
const connLifetime = 5 * time.Second

// tuneConnections lets a Connector make the connections. It takes ConnLifetime over: the client itself would end a
// connection with requests under way, and send them again, executed or not.
func tuneConnections(o *rueidis.ClientOption, dialer wire.DialFunc, ofSentinels wire.CredentialsFunc) *wire.Connector {
	life := o.ConnLifetime
	if life == 0 {
		life = connLifetime
	}
	o.ConnLifetime = -1
	sentinels := o.Sentinel.MasterSet != ""
	connector := wire.NewConnector(wire.TranslateHello(dialer), wire.ConnectorOptions{
		MaxAge: life, SingleServer: o.ForceSingleClient || sentinels, Sentinels: sentinels,
		PlainSecret: sentinels && o.TLSConfig != nil && o.Sentinel.TLSConfig == nil &&
			(ofSentinels != nil || o.Sentinel.Username+o.Sentinel.Password != ""),
	})
	o.DialCtxFn = connector.Dial
	connector.SetCredentials(o, ofSentinels)
	// A short handshake shows and checks no certificate, so functions that do are not called. What they say may have changed.
	if c := o.TLSConfig; c != nil && c.ClientSessionCache == nil && c.GetClientCertificate == nil && c.VerifyPeerCertificate == nil {
		o.TLSConfig = o.TLSConfig.Clone()
		o.TLSConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0) // the next handshake is a short one
	}
	return connector
}

func collect(options []SessionOption) session.Settings {
	set := session.Defaults()
	for _, option := range options {
		if option != nil {
			option(&set)
		}
	}
	return set
}
