// SPDX-License-Identifier: Apache-2.0

package tally_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

var file string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tally")
	if err != nil {
		panic(err)
	}
	file = filepath.Join(dir, "counts")
	_ = os.Setenv(tally.FileEnv, file) // it is a valid name
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// Counts of several processes are added up, and times have a median and a longest one.
func TestCountsAreAddedUp(t *testing.T) {
	t.Parallel()
	rows, err := tally.Read(file)
	require.NoError(t, err)
	require.Empty(t, rows, "nothing was written")
	for _, ms := range []int{30, 10, 20} {
		tally.Fault("a cut")
		tally.Time("recovery", "a cut", time.Duration(ms)*time.Millisecond)
		require.NoError(t, tally.Write())
	}
	rows, err = tally.Read(file)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, tally.Row{Group: "faults", Name: "a cut", N: 3}, rows[0])
	require.Equal(t, int64(3), rows[1].N)
	require.InDelta(t, 20, rows[1].Median(), 0.1)
	require.InDelta(t, 30, rows[1].Longest(), 0.1)
	require.Zero(t, rows[0].Longest())
}
