// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// greatest is the greatest lease in these tests, in microseconds.
const greatest int64 = 30_000_000

// H19: what a file or a replica has of a server says nothing of when its life was compared: who starts with that compares.
func TestThatALifeWasComparedIsNotReplayed(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t, redistest.WithArgs("--appendonly", "yes", "--dir", t.TempDir()))
	info, _ := f.server.MustDo(t, "INFO", "server").(string)
	_, life, _ := strings.Cut(info, "run_id:")
	since := func(compared int64) string { return "sb1e" + digits(noon-greatest) + digits(compared) + life[:40] }
	f.server.MustDo(t, "SET", "epoch", since(noon-greatest), "PX", 7*24*3600*1000)
	reply, err := f.tryKeys(scripts.RedlockAcquire, []string{f.key, "epoch", "fence"}, writtenFor(ours), lease, digits(noon), "", greatest)
	require.NoError(t, err)
	require.Equal(t, digits(noon), reply)
	require.Equal(t, since(noon), f.server.MustDo(t, "GET", "epoch"))
	f.server.MustDo(t, "DEBUG", "LOADAOF")
	require.Equal(t, since(noon-greatest), f.server.MustDo(t, "GET", "epoch"))
	require.Equal(t, votedFor(ours, noon, ""), f.value(), "as the rest of it is")
}
