// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// ownLocks is 64 goroutines of one process that never meet.
func ownLocks(b *bench) ([]table, error) {
	all, err := b.sideBySide(topology{1, 64, func(ctx context.Context, p process, i int) locker {
		return p.locker(ctx, numbered("own/", i))
	}})
	return []table{b.loopTable("64 goroutines of one process, on locks of their own", all)}, err
}
