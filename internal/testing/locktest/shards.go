// SPDX-License-Identifier: Apache-2.0

package locktest

import "github.com/signalbox-go/signalbox/shards"

// TakeUp takes up what a member is granted, and releases what it is asked for, until the member has left.
func TakeUp(m *shards.Member) {
	for change := range m.Changes() {
		if change.Kind != shards.Granted {
			_ = change.Shard.Release()
		}
	}
}
