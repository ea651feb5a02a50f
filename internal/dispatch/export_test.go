// SPDX-License-Identifier: Apache-2.0

package dispatch

// Running returns how many goroutines the dispatcher has: those of its links, and the placer.
func (d *Dispatcher) Running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.mu.conns)
	if d.mu.assigning {
		n++
	}
	return n
}

// Send is send.
var SendCommands = send
