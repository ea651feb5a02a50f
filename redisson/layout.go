// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Layout returns the layout, for signalbox.WithLayout. The options say what the Java clients do.
func Layout(options ...Option) signalbox.Layout {
	var java clients
	for _, option := range options {
		if option != nil {
			option.apply(&java)
		}
	}
	return signalbox.Layout(session.NewLayoutHandle(java.layout()))
}

// Option is an option of Layout. All clients that share a lock must agree on it.
type Option interface {
	apply(java *clients)
}

const (
	// Fenced makes a reentrant lock an RFencedLock. Lease.Token is then the number that Java's
	// lockAndGetToken returns: the next one of a counter that both sides share, which rises
	// whatever clocks do. It protects only if all clients take the name as a fenced lock: an RLock,
	// and a lock without this option, share the lock and count nothing. RFencedLock.delete()
	// restarts the counter.
	//
	// The counter has a key of its own that never ends. Each holder has one number, so handing the
	// lock over inside a process takes a round trip. Entering again keeps the token; Java counts. A
	// Lock that failed may have used a number up. Other kinds of lock return ErrBadOption.
	Fenced variant = 1 << iota

	// PlainChannels is for a cluster in which the Java clients do not use sharded channels: their
	// shardedSubscriptionMode is OFF, or they are older than 3.22. With the wrong channels nothing
	// is unsafe, but waiters are not woken: waiters in Go poll about once a second, waiters in Java
	// sleep until the lease would end. Outside a cluster there is only one kind of channel, and
	// neither option changes it.
	PlainChannels

	// ShardedChannels is for a cluster in which the Java clients use sharded channels. That is
	// their default, and the default of this option, too. Together with PlainChannels it is for a
	// cluster in which some Java clients use them and some do not: Go publishes each release in
	// both ways, which costs a message to all nodes, and listens to both. Java clients of one sort
	// do not wake those of the other, whatever Go does.
	ShardedChannels

	variants
)

// FairLockWaitTimeout is for a fair lock whose Java clients set Config.setFairLockWaitTimeout: pass
// the same duration. It is from 4 s to 24 h; Java's default, 5 minutes, needs no option.
//
// A waiter that dies delays those behind it by about that long. If Go and Java disagree nothing is
// unsafe, but a dead waiter delays the others by the longer of the two. A waiter in Go polls about
// once a second and keeps its ticket. In a session that waits for more than 1,000 locks at once, it
// polls less often, down to once in 10 s; with a timeout below 20 s it may lose its ticket and
// queue again. Other kinds of lock return ErrBadOption.
func FairLockWaitTimeout(d time.Duration) Option { return fairWait(d) }

// clients holds what the options say of the Java clients.
type clients struct {
	variant  variant
	fairWait *time.Duration // nil is Java's default
}

// layout returns how the locks of these clients are stored on the server.
func (c *clients) layout() (*proto.Layout, error) {
	if c.fairWait == nil {
		return tables[c.variant], nil
	}
	if c.variant&Fenced != 0 {
		return nil, fmt.Errorf("%w: Fenced is for a reentrant lock, FairLockWaitTimeout for a fair one", signalbox.ErrBadOption)
	}
	if err := checkFairWait(*c.fairWait); err != nil {
		return nil, err
	}
	return tableWithFairWait(c.variant, *c.fairWait), nil
}

// variant is a setting of Java clients that all sharers of a lock must have alike.
type variant uint8

func (v variant) apply(java *clients) { java.variant |= v }

type fairWait time.Duration

func (w fairWait) apply(java *clients) {
	d := time.Duration(w)
	java.fairWait = &d
}

const (
	// minFairWait is the least fairLockWaitTimeout with which a Go waiter keeps its ticket.
	minFairWait = 4 * time.Second
	// defaultFairWait is the default of Java's fairLockWaitTimeout.
	defaultFairWait = 5 * time.Minute
)

// checkFairWait returns an error if d cannot be Java's fairLockWaitTimeout. A Go waiter asks about
// once a second, and renews its ticket when half of the timeout is left.
func checkFairWait(d time.Duration) error {
	if d < minFairWait || d > session.MaxLease {
		return fmt.Errorf("%w: a fairLockWaitTimeout of %v: set one from %v to %v, here and in Java", signalbox.ErrBadOption, d, minFairWait, session.MaxLease)
	}
	return nil
}
