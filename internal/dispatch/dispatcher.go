// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/batch"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wheel"
)

// Linger is how long a channel stays subscribed after the last waiter left, so that locks
// which are waited for again and again do not cost a SUBSCRIBE each time.
const Linger = 3 * time.Second

// Dispatcher wakes the waiters of one session.
type Dispatcher struct {
	client  rueidis.Client
	server  Server
	timers  *timers.Timers
	looks   *batch.Collector[*Wait]
	log     *slog.Logger
	polling bool
	ctx     context.Context //nolint:containedctx // ends at Close, for calls under way
	cancel  context.CancelFunc
	running sync.WaitGroup // the goroutine that owns the connection
	changed chan struct{}  // room for one: channels were added or are to be dropped; coalesces
	count   atomic.Int64   // channels, for a look without the lock

	mu struct {
		sync.Mutex
		channels map[string]*channel
		wanted   []*channel // to be subscribed to
		lingered []*channel // to be dropped unless somebody came
		waits    map[*Wait]struct{}
		pumping  bool // there is a goroutine that will look at channels again
		closed   bool
		warned   bool
	}
}

// channel is one name subscribed to. Guarded by the dispatcher's lock.
type channel struct {
	d      *Dispatcher
	name   string
	waits  []*Wait
	live   bool // subscribed and confirmed, on the present connection
	sent   bool // SUBSCRIBE is under way or done, on the present connection
	linger wheel.Entry
}

// New answers a Dispatcher that starts nothing by itself. A polling one never subscribes.
func New(client rueidis.Client, server Server, t *timers.Timers, log *slog.Logger, polling bool) *Dispatcher {
	d := &Dispatcher{client: client, server: server, timers: t, log: log, polling: polling, changed: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.looks = batch.New(t, d.lookAll)
	d.mu.channels = make(map[string]*channel)
	d.mu.waits = make(map[*Wait]struct{})
	return d
}

// Wait registers a waiter. It is woken at once where no confirmation will do so: the channel
// is live already, and messages before now were for others; or the dispatcher is closed.
func (d *Dispatcher) Wait(target Target) *Wait {
	w := d.register(target)
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.channel != nil && w.channel.live {
		w.wake()
	}
	return w
}

// StandBack registers a waiter that leaves the lock alone for pause, or until another session
// releases it: it has just been given to somebody, and the message that says so, our own, is
// for them.
func (d *Dispatcher) StandBack(target Target, pause time.Duration) *Wait {
	w := d.register(target)
	d.mu.Lock()
	defer d.mu.Unlock()
	w.aside = true
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
	c := d.mu.channels[target.Channel]
	if c == nil {
		c = &channel{d: d, name: target.Channel}
		c.linger.Init(c)
		d.mu.channels[target.Channel] = c
		d.count.Add(1)
		d.mu.wanted = append(d.mu.wanted, c)
		d.pumpLocked()
	}
	c.waits = append(c.waits, w)
	w.channel = c
	d.timers.Cancel(&c.linger)
	return w
}

// WaitIfLive registers a waiter if its channel is subscribed to already, and answers nil
// otherwise: a lock that was waited for a moment ago is worth registering for before the
// first try, which then need not be repeated.
func (d *Dispatcher) WaitIfLive(target Target) *Wait {
	if d.count.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	c := d.mu.channels[target.Channel]
	live := c != nil && c.live
	d.mu.Unlock()
	if !live {
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
	c := w.channel
	if c == nil {
		return
	}
	for i, other := range c.waits {
		if other == w {
			c.waits[i] = c.waits[len(c.waits)-1]
			c.waits = c.waits[:len(c.waits)-1]
			break
		}
	}
	if len(c.waits) == 0 && !d.mu.closed {
		d.timers.Schedule(&c.linger, Linger)
	}
}

// Fire implements wheel.Event: the linger is over.
func (c *channel) Fire() {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if len(c.waits) == 0 {
		c.d.mu.lingered = append(c.d.mu.lingered, c)
		c.d.pumpLocked()
	}
}

// Channels answers how many channels there are.
func (d *Dispatcher) Channels() int { return int(d.count.Load()) }

// Refuse wakes every waiter, now and from now on, and ends the subscriptions.
func (d *Dispatcher) Refuse() {
	d.mu.Lock()
	d.mu.closed = true
	for _, c := range d.mu.channels {
		d.timers.Cancel(&c.linger)
	}
	for w := range d.mu.waits {
		w.wake()
	}
	d.mu.Unlock()
	d.cancel()
}

// Close is Refuse, and waits for what is under way.
func (d *Dispatcher) Close() {
	d.Refuse()
	d.looks.Close()
	d.running.Wait()
}
