// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

// AcquireOne is what the call of lock/acquire-many has for each lock.
type AcquireOne struct{ Ticket, LifeMS, NotAfter, Label string }

// AppendTo appends the arguments in the order of the header.
func (c AcquireOne) AppendTo(args []string) []string {
	return append(args, c.Ticket, c.LifeMS, c.NotAfter, c.Label)
}

// ReadAcquiredOne returns the stamp of the n-th lock, which lock/acquire-many acquired, or 0 if it did not.
func ReadAcquiredOne(r *wire.Reply, n int) wire.Stamp {
	part, err := r.Part(n)
	if err != nil {
		return 0
	}
	return part.Stamp(0)
}

// ReleaseOne is what the call of lock/release-many has for each lock.
type ReleaseOne struct{ Ticket, Used, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c ReleaseOne) AppendTo(args []string) []string {
	return append(args, c.Ticket, c.Used, c.KeepMS)
}
