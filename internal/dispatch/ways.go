// SPDX-License-Identifier: Apache-2.0

package dispatch

// Ways are how what befalls a lock is told in a cluster, and heard. Elsewhere there is one way, PUBLISH.
type Ways uint8

const (
	// BySlot is a sharded channel: told by the node that has the slot of the lock.
	BySlot Ways = iota
	// ByBus is a plain channel: told by every node.
	ByBus
	// BothWays are a sharded channel and a plain one of the same name, for a lock that is shared with others who
	// use one or the other.
	BothWays
)

// kind says how one channel is told.
type kind uint8

const (
	sharded kind = iota
	plain
)

// address is what a channel is known by: the two kinds of one name are two channels.
type address struct {
	name string
	kind kind
}

// maxWays is how many channels there are for one name.
const maxWays = 2

// WithoutShards says that the server is a cluster without sharded channels, as an embedded server
// may be. Then every message is sent by PUBLISH and received on a plain channel. Call it at the
// first contact with the server, before the first message or wait. Every session of that server
// finds the same, so that they get each other's messages. A missing right to sharded channels is no
// reason to call it: other sessions may have the right.
func (d *Dispatcher) WithoutShards() { d.unsharded.Store(true) }

// addresses returns where to hear what is told on a channel in these ways; an address without a name is none.
// Outside a cluster all that is told by PUBLISH is heard on one channel.
func (d *Dispatcher) addresses(name string, ways Ways) (all [maxWays]address) {
	switch {
	case !d.clustered:
		all[0] = address{name, sharded}
	case ways == ByBus || d.unsharded.Load():
		all[0] = address{name, plain}
	case ways == BySlot:
		all[0] = address{name, sharded}
	default:
		all[0], all[1] = address{name, sharded}, address{name, plain}
	}
	return all
}

// Publish returns the commands by which scripts tell in these ways, with a blank between two. They reach those who
// wait or listen in the same ways, and in BothWays those of either.
func (d *Dispatcher) Publish(ways Ways) string {
	switch {
	case !d.clustered || ways == ByBus || d.unsharded.Load():
		return "PUBLISH"
	case ways == BySlot:
		return "SPUBLISH"
	}
	return "SPUBLISH PUBLISH"
}
