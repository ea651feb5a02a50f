// SPDX-License-Identifier: Apache-2.0

package notify

// ChannelTypes says on which channels the events of a lock are published in a cluster, and listened for. Elsewhere
// there is one channel, and PUBLISH.
type ChannelTypes uint8

const (
	// ShardedChannel is a sharded channel: the node that has the slot of the lock publishes.
	ShardedChannel ChannelTypes = iota
	// PlainChannel is a plain channel: every node publishes.
	PlainChannel
	// BothChannels are a sharded channel and a plain one of the same name, for a lock that is shared with
	// programs that use one or the other.
	BothChannels
)

// channelType is the kind of one channel.
type channelType uint8

const (
	sharded channelType = iota
	plain
)

// channelAddress identifies a channel: the two kinds of one name are two channels.
type channelAddress struct {
	name        string
	channelType channelType
}

// maxChannelsOfName is how many channels there are for one name.
const maxChannelsOfName = 2

// DisableShardedChannels records that the server is a cluster without sharded channels, as an embedded server
// may be. Then every message is sent by PUBLISH and received on a plain channel. Call it at the
// first contact with the server, before the first message or wait. Every session of that server
// finds the same, so that they get each other's messages. A missing right to sharded channels is no
// reason to call it: other sessions may have the right.
func (d *Dispatcher) DisableShardedChannels() { d.unsharded.Store(true) }

// addresses returns the channels on which messages of a name arrive, for these types; an address without a name is
// unused. Outside a cluster everything is published by PUBLISH and arrives on one channel.
func (d *Dispatcher) addresses(name string, types ChannelTypes) (all [maxChannelsOfName]channelAddress) {
	switch {
	case !d.server.Clustered():
		all[0] = channelAddress{name, sharded}
	case types == PlainChannel || d.unsharded.Load():
		all[0] = channelAddress{name, plain}
	case types == ShardedChannel:
		all[0] = channelAddress{name, sharded}
	default:
		all[0], all[1] = channelAddress{name, sharded}, channelAddress{name, plain}
	}
	return all
}

// PublishCommands returns the commands by which scripts publish on these types of channels, separated by a blank. They reach
// waiters and listeners of the same types, and with BothChannels those of either.
func (d *Dispatcher) PublishCommands(types ChannelTypes) string {
	switch {
	case !d.server.Clustered() || types == PlainChannel || d.unsharded.Load():
		return "PUBLISH"
	case types == ShardedChannel:
		return "SPUBLISH"
	}
	return "SPUBLISH PUBLISH"
}
