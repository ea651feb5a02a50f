// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Two nodes whose link is cut miss each other, and no other node follows; a primary that is cut off from all is replaced. Once healed
// the cluster is whole.
func TestPartedNodesMissEachOther(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithLinks())
	owner := c.Owner(t, 0)
	for _, n := range c.Servers()[:3] {
		if n != owner {
			c.Part(t, owner, n)
			c.AwaitParted(t, owner, n)
			break
		}
	}
	require.Equal(t, owner, c.Owner(t, 0))
	c.Heal(t)
	var others []*redistest.Server
	for _, n := range c.Servers() {
		if n != owner {
			others = append(others, n)
		}
	}
	c.Part(t, owner, others...)
	heir := c.AwaitFailover(t, 0, owner)
	c.Heal(t)
	require.Equal(t, heir, c.Owner(t, 0))
}
