// SPDX-License-Identifier: Apache-2.0

package notify

// Running returns how many goroutines the dispatcher has: one for each connection, and the assigner.
func (d *Dispatcher) Running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.mu.conns)
	if d.mu.assigning {
		n++
	}
	return n
}

// SendCommands is send.
var SendCommands = send
