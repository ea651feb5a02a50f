// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"errors"
	"runtime/pprof"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// subscribePatience bounds one pipeline of SUBSCRIBE, which a frozen server would never confirm.
const subscribePatience = 5 * time.Second

// The messages of dropped channels arrive until their connection is replaced: after droppedFor, or when there are maxDropped.
const (
	droppedFor = 10 * time.Second
	maxDropped = 1000
)

var (
	errBroken   = errors.New("the subscription connection broke")
	errReplaced = errors.New("the subscription connection is replaced")
)

// nodeConn is one connection to one node, and the goroutine that owns it. It ends when the connection breaks,
// or when it has no channel left. A later channel of the node gets another one.
type nodeConn struct {
	d       *Dispatcher
	node    string
	madeAt  time.Time
	changed chan struct{} // wakes the goroutine: wanted was added to, or the last channel left; holds one wake-up
	replace chan struct{} // holds a message if another connection is to replace this one

	// The fields below are guarded by d.mu.
	channels     map[*channel]struct{}
	wanted       []*channel                  // the channels to subscribe to, and some that were removed meanwhile
	dropped      map[channelAddress]struct{} // dropped channels that the connection is still subscribed to
	firstDropped time.Time                   // when dropped got its first channel
	clientNodes  map[string]struct{}         // the client's nodes when the connection was made
	// departed is the last departure of a connection for calls when the connection was last known to be at the server of the calls.
	departed uint64
	// confirmed is when the server first confirmed a subscription; the zero time before that.
	confirmed time.Time
}

// connLocked starts a connection to a node.
func (d *Dispatcher) connLocked(node string) *nodeConn {
	conn := &nodeConn{
		d: d, node: node, madeAt: time.Now(), changed: make(chan struct{}, 1), replace: make(chan struct{}, 1),
		channels: make(map[*channel]struct{}), dropped: make(map[channelAddress]struct{}),
	}
	if len(d.mu.conns) == 0 {
		d.timers.Schedule(&d.follower.entry, followInterval)
	}
	d.mu.conns[node] = conn
	d.running.Go(func() {
		pprof.SetGoroutineLabels(d.ctx)
		if err := conn.serve(d.ctx); err != nil {
			conn.ended(err)
		}
	})
	return conn
}

// labelled runs wait with the profiler label of the goroutines of this package. They have the label
// only while they wait: what the client starts for a connection inherits the labels of its caller,
// and keeps them.
func labelled(ctx context.Context, wait func()) {
	pprof.Do(ctx, pprof.Labels("signalbox", "dispatch"), func(context.Context) { wait() })
}

func (nc *nodeConn) notify() { signal(nc.changed) }

// signal sends into a channel with room for one.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // the receiver has been notified already
	}
}

// removeLocked removes a channel from the connection.
func (nc *nodeConn) removeLocked(c *channel) {
	delete(nc.channels, c)
	c.unassignLocked()
	nc.notify()
}

// serve keeps the subscriptions of the connection as they are wanted. It returns nil when there is nothing
// left to subscribe to. That is final: the connection has ended.
func (nc *nodeConn) serve(ctx context.Context) error {
	client, err := nc.open()
	if err != nil {
		return err
	}
	// Close, not a return into the client's pool: that would clean up with commands to which a frozen server
	// does not reply, and keep the connection alive for ever.
	defer client.Close()
	broken := client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: nc.message, OnSubscription: nc.subscription})
	for {
		add, idle := nc.changes()
		if idle {
			return nil
		}
		if err := nc.subscribe(ctx, client, add); err != nil {
			return err
		}
		if len(add) > 0 {
			continue // there may be more than one pipeline's worth, and changes since
		}
		labelled(ctx, func() {
			select {
			case <-nc.changed:
			case err = <-broken:
				if errors.Is(err, wire.ErrCredentialsChanged) {
					err = errReplaced
					return
				}
				err = errs.Join(errBroken, err)
			case <-nc.replace:
				err = errReplaced
			case <-ctx.Done():
				err = ctx.Err()
			}
		})
		if err != nil {
			return err
		}
	}
}

// open makes the connection. The client does not check a context meanwhile.
func (nc *nodeConn) open() (rueidis.DedicatedClient, error) {
	d := nc.d
	nodes := d.client.Nodes() // before the connection is made: a change while it is made counts as one
	client := d.client
	if d.server.Clustered() {
		if client = nodes[nc.node]; client == nil {
			return nil, errReplaced
		}
	}
	known := make(map[string]struct{}, len(nodes))
	for node := range nodes {
		known[node] = struct{}{}
	}
	departed := d.lastDeparture()
	d.mu.Lock()
	nc.clientNodes, nc.departed = known, departed
	d.mu.Unlock()
	dedicated, _ := client.Dedicate()
	return dedicated, nil
}

// changes returns which channels to subscribe to, and records that this is done. idle: there is no channel at
// all, and the connection has ended. Later users get another connection.
func (nc *nodeConn) changes() (add []*channel, idle bool) {
	nc.d.mu.Lock()
	defer nc.d.mu.Unlock()
	if len(nc.channels) == 0 {
		delete(nc.d.mu.conns, nc.node)
		return nil, true
	}
	for len(nc.wanted) > 0 && len(add) < maxChannels {
		c := nc.wanted[0]
		nc.wanted = nc.wanted[1:]
		if c.conn == nc && c.state == assigned {
			c.state = subscribing
			delete(nc.dropped, c.channelAddress)
			add = append(add, c)
		}
	}
	return add, false
}

// subscribe sends a command for each channel, in one pipeline. In a cluster channels of different slots do
// not fit in one command, and the server replies for each channel separately. If a slot moved in the middle
// of a reply for many, the client would read the message as a part of it.
func (nc *nodeConn) subscribe(ctx context.Context, client rueidis.DedicatedClient, channels []*channel) error {
	commands := make([]rueidis.Completed, len(channels))
	for i, c := range channels {
		if nc.d.server.Clustered() && c.channelType == sharded {
			commands[i] = client.B().Ssubscribe().Channel(c.name).Build()
		} else {
			commands[i] = client.B().Subscribe().Channel(c.name).Build()
		}
	}
	refusals, err := send(ctx, client, commands)
	if len(refusals) > 0 {
		nc.refused(channels, refusals)
	}
	return err
}

// dropLocked records that a channel is dropped which the connection is, or will be, subscribed to. The connection is
// replaced for it later; UNSUBSCRIBE is never sent. The client sends a PING behind each, to know when the reply is
// complete. It panics if the server refuses that: because a save has failed, a script runs for long, or a replica has
// lost its primary.
func (nc *nodeConn) dropLocked(c *channel) {
	if len(nc.dropped) == 0 {
		nc.firstDropped = time.Now()
	}
	nc.dropped[c.channelAddress] = struct{}{}
}

// hasManyDroppedLocked reports whether the connection is to be replaced by one without the dropped channels.
func (nc *nodeConn) hasManyDroppedLocked(now time.Time) bool {
	return len(nc.dropped) > maxDropped || len(nc.dropped) > 0 && now.Sub(nc.firstDropped) > droppedFor
}

// send returns the server's refusals, by command.
//
// The commands belong to the caller and stay unchanged. Otherwise the client would reuse commands that have
// replies for others, and send all of them once more if the connection breaks between the replies: it panics
// then, or sends the reused ones.
func send(ctx context.Context, client rueidis.DedicatedClient, commands []rueidis.Completed) (map[int]*rueidis.RedisError, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	for i, command := range commands {
		commands[i] = command.Pin()
	}
	ctx, cancel := context.WithTimeout(ctx, subscribePatience)
	defer cancel()
	refused := make(map[int]*rueidis.RedisError)
	for i, result := range client.DoMulti(ctx, commands...) {
		err := result.Error()
		refusal, ok := rueidis.IsRedisErr(err)
		switch {
		case err == nil:
		case ok:
			refused[i] = refusal
		default:
			return refused, err
		}
	}
	return refused, nil
}
