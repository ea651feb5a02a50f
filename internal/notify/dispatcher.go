// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// Dispatcher wakes the waiters of one session, and calls its listeners.
type Dispatcher struct {
	client     rueidis.Client
	server     ScriptRunner
	timers     *timers.Timers
	polls      *timers.Collector[*Wait]
	monitor    Monitor
	polling    bool
	unsharded  atomic.Bool     // a cluster without sharded channels; see DisableShardedChannels
	ctx        context.Context //nolint:containedctx // ends at Close, for calls under way
	cancel     context.CancelFunc
	running    sync.WaitGroup // the goroutines of the connections, and the assigner
	unassigned chan struct{}  // wakes the assigner; holds one wake-up, more of them coalesce
	follower   clientFollower
	count      atomic.Int64 // the number of channels, to be read without the lock

	mu struct {
		sync.Mutex
		channels    map[channelAddress]*channel
		waits       map[*Wait]struct{}
		conns       map[string]*nodeConn    // by node
		unassigned  []*channel              // the channels without a connection
		assigning   bool                    // the assigner runs, and will check unassigned again
		backOffs    map[string]*nodeBackOff // by node; empty when there is no channel
		slots       map[uint16]string
		closed      bool
		messages    messageReport
		serverCheck serverCheck
	}
}

// Monitor is notified when messages cease to arrive, and when they arrive again, in turn and one after the other, on a
// goroutine that nothing waits for.
type Monitor interface {
	// MessagesLost is called with why waiters poll instead.
	MessagesLost(why error)
	MessagesBack()
	// ServersDiffer is called when calls and messages were found to go to different servers.
	ServersDiffer()
}

// NewDispatcher returns a Dispatcher that starts nothing by itself. A polling one never subscribes.
func NewDispatcher(client rueidis.Client, server ScriptRunner, t *timers.Timers, monitor Monitor, polling bool) *Dispatcher {
	d := &Dispatcher{
		client: client, server: server, timers: t, monitor: monitor, polling: polling,
		unassigned: make(chan struct{}, 1),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.polls = timers.NewCollector(t, d.pollAll)
	d.follower.d = d
	d.follower.entry.Init(&d.follower)
	d.mu.channels = make(map[channelAddress]*channel)
	d.mu.waits = make(map[*Wait]struct{})
	d.mu.conns = make(map[string]*nodeConn)
	d.mu.backOffs = make(map[string]*nodeBackOff)
	d.mu.slots = make(map[uint16]string)
	return d
}

// Wait registers a waiter. It wakes the waiter at once if no confirmation will do so: the channel is subscribed to
// already, and earlier messages went to others; or the dispatcher is closed.
func (d *Dispatcher) Wait(target Target) *Wait {
	w := d.register(target)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range w.channels {
		if c != nil && c.state == subscribed {
			w.wake()
		}
	}
	return w
}

// BackOff registers a waiter that leaves the lock alone for pause, or until another session releases it:
// the lock has just been granted to another waiter, and our own message is for that one.
func (d *Dispatcher) BackOff(target Target, pause time.Duration) *Wait {
	w := d.register(target)
	d.mu.Lock()
	defer d.mu.Unlock()
	w.backedOff = true
	d.timers.Schedule(&w.entry, pause)
	return w
}

func (d *Dispatcher) register(target Target) *Wait {
	w := &Wait{C: make(chan struct{}, 1), d: d, target: target}
	w.entry.Init(w)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.waits[w] = struct{}{}
	if d.mu.closed {
		w.wake()
		return w
	}
	if d.polling {
		return w
	}
	for i, address := range d.addresses(target.Channel, target.ChannelTypes) {
		if address.name != "" {
			c := d.channelLocked(address)
			c.addWaitLocked(w, i)
		}
	}
	return w
}

// WaitIfSubscribed registers a waiter if its channel is subscribed to already, and returns nil otherwise. A waiter
// for a recently used lock can register before the first try, which then need not be repeated.
func (d *Dispatcher) WaitIfSubscribed(target Target) *Wait {
	if !d.isSubscribed(target.Channel, target.ChannelTypes) {
		return nil
	}
	return d.register(target)
}

func (d *Dispatcher) leave(w *Wait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	delete(d.mu.waits, w)
	d.timers.Cancel(&w.entry)
	for i, c := range w.channels {
		if c != nil {
			c.removeWaitLocked(w, i)
		}
	}
}

// Channels returns how many channels there are.
func (d *Dispatcher) Channels() int { return int(d.count.Load()) }

// Refuse wakes every waiter, now and from now on, and ends the subscriptions.
func (d *Dispatcher) Refuse() {
	d.mu.Lock()
	d.mu.closed = true
	for _, c := range d.mu.channels {
		d.timers.Cancel(&c.linger)
	}
	d.timers.Cancel(&d.follower.entry)
	for w := range d.mu.waits {
		w.wake()
	}
	d.mu.Unlock()
	d.cancel()
}

// Close is Refuse, and waits for what is under way.
func (d *Dispatcher) Close() {
	d.Refuse()
	d.polls.Close()
	d.running.Wait()
}
