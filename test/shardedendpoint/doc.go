// SPDX-License-Identifier: Apache-2.0

// Package shardedendpoint has tests of locks behind one endpoint in front of several shards. Its clients see one server. The
// endpoints are a node of a cluster whose clients know of no cluster, and routers. A router refuses a script with keys of
// several slots, or sends it to the shard of the first key.
package shardedendpoint
