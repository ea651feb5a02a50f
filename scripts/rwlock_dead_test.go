// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Order: a writer may live behind the dead that are not passed over yet.
func TestNoReaderComesInWhileAWriterMayBeAlive(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(holdOf("z"), reads)
	p.dead(3000, writes, noon-second)
	p.queues(holdOf("w"), writes)
	require.Equal(t, int64(1), p.joins(ours, reads)[2])
	for more := any(int64(1)); more == int64(1); {
		p.requireHave(reads, holdOf("z"))
		more = p.polls(we, ours)[2]
	}
	p.requireHave(reads, holdOf("z"))
	p.leaves(holdOf("z"))
	p.requireHave(writes, holdOf("w"))
}
