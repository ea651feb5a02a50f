// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// holderLog is what every holder of a lock writes down while it has it.
type holderLog struct {
	mu struct {
		sync.Mutex
		inside   map[uint64]signalbox.Lease // the leases inside, by token
		last     uint64                     // the greatest token of all
		grants   []time.Time
		overlaps []string
		falls    []string
		faults   []string
	}
}

func newHolderLog() *holderLog {
	b := &holderLog{}
	b.mu.inside = make(map[uint64]signalbox.Lease)
	return b
}

// last returns the greatest token of all that have entered. A caller that starts to ask for the lock now gets
// a greater one.
func (b *holderLog) last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.last
}

// enter takes note that a lease begins, which was asked for when the greatest token was before. Another that is trusted still
// overlaps with it. Where two servers grant, or a grant can be lost, who had it may come here behind the next: then the order
// in which they come is not that of their tokens, unless one asked when the other had come.
func (b *holderLog) enter(lease signalbox.Lease, before uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	token, alone := lease.Token(), true
	var overlaps []string
	for other, l := range b.mu.inside {
		if l.Err() == nil {
			alone = false
			overlaps = append(overlaps, fmt.Sprintf("%d while %d", token, other))
		}
	}
	// A lease that is over before its holder comes here overlaps with no other, and may come behind the next.
	late := lease.Err() != nil
	if !late {
		b.mu.overlaps = append(b.mu.overlaps, overlaps...)
	}
	switch {
	case token == b.mu.last, token <= before:
		b.mu.faults = append(b.mu.faults, fmt.Sprintf("token %d, asked for after %d had come", token, before))
	case alone && !late && token < b.mu.last:
		b.mu.falls = append(b.mu.falls, fmt.Sprintf("token %d after %d", token, b.mu.last))
	}
	b.mu.last = max(b.mu.last, token)
	b.mu.inside[token] = lease
	b.mu.grants = append(b.mu.grants, time.Now())
}

// leave takes note that its holder works under a lease no more.
func (b *holderLog) leave(lease signalbox.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.inside, lease.Token())
}

// violations takes note of what must not be.
func (b *holderLog) violations(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults = append(b.mu.faults, fmt.Sprintf(format, args...))
}

// mustBeTrue requires that no two leases overlapped and that tokens grew.
func (b *holderLog) mustBeTrue(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.mu.overlaps, "two at once")
	require.Empty(t, b.mu.falls)
	require.Empty(t, b.mu.faults)
}

// mustShowLater requires that tokens show the later of two leases that overlapped.
func (b *holderLog) mustShowLater(t *testing.T) (overlaps int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.mu.faults)
	return len(b.mu.overlaps)
}

// pause returns the longest time without a grant that ended after since, and how many grants there were
// after it.
func (b *holderLog) pause(since time.Time) (longest time.Duration, after int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	grants := slices.Clone(b.mu.grants)
	for i, at := range grants {
		if i > 0 && at.After(since) && at.Sub(grants[i-1]) > longest {
			longest, after = at.Sub(grants[i-1]), len(grants)-i
		}
	}
	return longest, after
}

// len returns how many grants there were.
func (b *holderLog) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.grants)
}
