// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of a large batch do not replace those of calls for one lock.
func TestBatchesDoNotReplaceRememberedKeys(t *testing.T) {
	t.Parallel()
	r := new(rights)
	lock := []string{"sb:{a}:lock", "sb:{a}:queue"}
	r.remember(lock)
	batch := make([]string, 100*maxRememberedKeys)
	for i := range batch {
		batch[i] = strconv.Itoa(i)
	}
	r.remember(batch)
	require.True(t, r.hasAll(lock))
}
