// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Order: a writer may live behind the dead that are not passed over yet.
func TestNoReaderComesInWhileAWriterMayBeAlive(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(holdOf("z"), reads)
	r.dead(3000, writes, noon-second)
	r.queues(holdOf("w"), writes)
	require.Equal(t, int64(1), r.joins(ours, reads)[2])
	for more := any(int64(1)); more == int64(1); {
		r.requireHave(reads, holdOf("z"))
		more = r.polls(we, ours)[2]
	}
	r.requireHave(reads, holdOf("z"))
	r.leaves(holdOf("z"))
	r.requireHave(writes, holdOf("w"))
}
