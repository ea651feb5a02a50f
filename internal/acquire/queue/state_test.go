// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A step that the table does not have is refused in tests.
func TestAttempt_ImpossibleStep_IsRefused(t *testing.T) {
	t.Parallel()
	for _, a := range []*Attempt{{state: over}, {state: withdrawn}, {state: begun}} {
		require.Panics(t, func() { a.toLocked(granted) })
	}
}
