// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// holderLog is what every holder of a lock writes down while it has it.
type holderLog struct {
	mu struct {
		sync.Mutex
		inside   map[uint64]signalbox.Lease // the leases inside, by token
		last     uint64                     // the greatest token of all
		grants   int
		overlaps []string
		falls    []string
		faults   []string
	}
}

func newHolderLog() *holderLog {
	h := &holderLog{}
	h.mu.inside = make(map[uint64]signalbox.Lease)
	return h
}

// last returns the greatest token of all that have entered. A caller that starts to ask for the lock now gets
// a greater one.
func (h *holderLog) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.last
}

// enter takes note that a lease begins, which was asked for when the greatest token was before. Another that is trusted still
// overlaps with it. Where two servers grant, or a grant can be lost, who had it may come here behind the next: then the order
// in which they come is not that of their tokens, unless one asked when the other had come.
func (h *holderLog) enter(lease signalbox.Lease, before uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token, alone := lease.Token(), true
	var overlaps []string
	for other, l := range h.mu.inside {
		if l.Err() == nil {
			alone = false
			overlaps = append(overlaps, fmt.Sprintf("%d while %d", token, other))
		}
	}
	// A lease that is over before its holder comes here overlaps with no other, and may come behind the next.
	late := lease.Err() != nil
	if !late {
		h.mu.overlaps = append(h.mu.overlaps, overlaps...)
	}
	switch {
	case token == h.mu.last, token <= before:
		h.mu.faults = append(h.mu.faults, fmt.Sprintf("token %d, asked for after %d had come", token, before))
	case alone && !late && token < h.mu.last:
		h.mu.falls = append(h.mu.falls, fmt.Sprintf("token %d after %d", token, h.mu.last))
	}
	h.mu.last = max(h.mu.last, token)
	h.mu.inside[token] = lease
	h.mu.grants++
}

// leave takes note that its holder works under a lease no more.
func (h *holderLog) leave(lease signalbox.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.inside, lease.Token())
}

// violations takes note of what must not be.
func (h *holderLog) violations(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.faults = append(h.mu.faults, fmt.Sprintf(format, args...))
}

// mustBeTrue requires that no two leases overlapped and that tokens grew.
func (h *holderLog) mustBeTrue(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.mu.overlaps, "two at once")
	require.Empty(t, h.mu.falls)
	require.Empty(t, h.mu.faults)
}

// len returns how many grants there were.
func (h *holderLog) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.grants
}
