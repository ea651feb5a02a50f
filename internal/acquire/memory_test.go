// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// P7: what an uncontended lock needs is one object of 576 bytes, of which the allocator takes 8.
func TestLockMemory_FitsItsSizeClass(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(lockMemory{}), uintptr(568))
}
