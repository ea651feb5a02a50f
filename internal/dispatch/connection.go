// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/pprof"
	"time"

	"github.com/redis/rueidis"
)

const (
	firstPause, lastPause = 10 * time.Millisecond, 5 * time.Second
	// subscribePatience bounds one SUBSCRIBE, which a frozen server would never confirm.
	subscribePatience = 5 * time.Second
	// maxChannels bounds one SUBSCRIBE.
	maxChannels = 500
)

// pumpLocked makes sure that somebody looks at the channels: the goroutine that is there, or a
// new one. The goroutine gives up pumping under the same lock under which it finds no channel
// left, so a change is either seen by it or starts the next.
func (d *Dispatcher) pumpLocked() {
	if d.mu.closed {
		return
	}
	if !d.mu.pumping {
		d.mu.pumping = true
		d.running.Add(1)
		go pprof.Do(d.ctx, pprof.Labels("signalbox", "dispatch"), func(ctx context.Context) {
			defer d.running.Done()
			d.pump(ctx)
		})
		return
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// pump keeps a connection while there are channels.
func (d *Dispatcher) pump(ctx context.Context) {
	pause := firstPause
	for {
		began := time.Now()
		err := d.serve(ctx)
		if ctx.Err() != nil || err == nil {
			return
		}
		d.warn(err)
		d.disconnected()
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(pause*2, lastPause)
	}
}

// serve keeps the subscriptions of one connection as they are wanted. It answers nil when
// there is nothing left to subscribe to, and that is final: pumping is over.
func (d *Dispatcher) serve(ctx context.Context) error {
	client, _ := d.client.Dedicate()
	// Close, not a return into the client's pool, which would clean up by commands that a
	// frozen server does not answer, and keep the connection alive for ever.
	defer client.Close()
	broken := client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: d.message, OnSubscription: d.confirmed})
	for {
		add, drop, idle := d.changes()
		if idle {
			return nil
		}
		if len(drop) > 0 {
			if err := do(ctx, client, client.B().Unsubscribe().Channel(drop...).Build()); err != nil {
				return err
			}
		}
		if len(add) > 0 {
			if err := do(ctx, client, client.B().Subscribe().Channel(add...).Build()); err != nil {
				return err
			}
			continue // there may be more than one command's worth, and changes since
		}
		if len(drop) > 0 {
			continue // the last channel may be gone
		}
		select {
		case <-d.changed:
		case err := <-broken:
			return errors.Join(errBroken, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errBroken says that the subscription connection ended.
var errBroken = errors.New("the subscription connection broke")

func do(ctx context.Context, client rueidis.DedicatedClient, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, subscribePatience)
	defer cancel()
	return client.Do(ctx, command).Error()
}

// changes answers which channels to subscribe to and which to leave, and takes note that it
// is done. idle: there is no channel at all, and the caller stops pumping.
func (d *Dispatcher) changes() (add, drop []string, idle bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.mu.lingered {
		if len(c.waits) > 0 || d.mu.channels[c.name] != c {
			continue // somebody came meanwhile, or it was dropped already
		}
		// Forgotten before UNSUBSCRIBE is sent: who comes now makes the channel anew, and its
		// SUBSCRIBE follows on the same connection.
		delete(d.mu.channels, c.name)
		d.count.Add(-1)
		if c.sent {
			drop = append(drop, c.name)
		}
	}
	d.mu.lingered = d.mu.lingered[:0]
	for len(d.mu.wanted) > 0 && len(add) < maxChannels {
		c := d.mu.wanted[0]
		d.mu.wanted = d.mu.wanted[1:]
		if d.mu.channels[c.name] == c && !c.sent {
			c.sent = true
			add = append(add, c.name)
		}
	}
	if len(d.mu.channels) == 0 && len(drop) == 0 {
		d.mu.pumping = false
		d.mu.wanted = nil
		return nil, nil, true
	}
	return add, drop, false
}

// confirmed is the client's hook: a subscription holds. Whoever waits looks again, since
// messages before this one did not reach us.
func (d *Dispatcher) confirmed(s rueidis.PubSubSubscription) {
	if s.Kind != "subscribe" && s.Kind != "ssubscribe" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.mu.channels[s.Channel]; c != nil && !c.live {
		c.live = true
		for _, w := range c.waits {
			if !w.aside {
				w.wake()
			}
		}
	}
}

// message is the client's hook: somebody released.
func (d *Dispatcher) message(m rueidis.PubSubMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.mu.channels[m.Channel]; c != nil {
		for _, w := range c.waits {
			if !w.aside || !w.own(m.Message) {
				w.wake()
			}
		}
	}
}

// disconnected takes note that no channel is subscribed to any more.
func (d *Dispatcher) disconnected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.wanted = d.mu.wanted[:0]
	for _, c := range d.mu.channels {
		c.live, c.sent = false, false
		d.mu.wanted = append(d.mu.wanted, c)
	}
}

// warn says once that there are no messages.
func (d *Dispatcher) warn(err error) {
	d.mu.Lock()
	first := !d.mu.warned
	d.mu.warned = true
	d.mu.Unlock()
	if first {
		d.log.Warn("no unlock messages for now; waiters look about once a second", "error", err)
	}
}
