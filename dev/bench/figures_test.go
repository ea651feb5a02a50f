// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func rated(name string, rates ...int) series {
	s := series{impl: implementation{name: name, excludes: name != limitName}}
	for _, r := range rates {
		s.samples = append(s.samples, sample{ops: r, elapsed: time.Second})
	}
	return s
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	// The machine is ten times slower in the second round.
	base, one := rated(limitName, 1000, 100, 1000), rated(ownName, 500, 50, 800)
	require.InDelta(t, 0.5, one.ratio(base, rate), 1e-9)
}

func TestTheBestPeerIsNeitherOursNorTheLimit(t *testing.T) {
	t.Parallel()
	all := []series{rated(limitName, 9), rated(ownName, 8), rated("slow", 2), rated("fast", 3)}
	best, ok := bestPeer(all, rate)
	require.True(t, ok)
	require.Equal(t, "fast", best.impl.name)
	_, ok = bestPeer(all[:2], rate)
	require.False(t, ok)
}

func TestNumbersReadWell(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 2: "2", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 999: "999", 1234567.8: "1,234,568"} {
		require.Equal(t, want, number(v))
	}
	for v, want := range map[float64]string{0: "0 ns", 12.3e-9: "12.3 ns", 4.5e-6: "4.50 µs", 1.5e-3: "1.50 ms", 2.25: "2.25 s"} {
		require.Equal(t, want, span(v))
	}
}

func TestATableIsMarkdown(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, table{
		title: "Title", note: "Note.", header: []string{"name", "µs"}, rows: [][]string{{"a", "1"}, {"long name", "1,000"}},
	}.write(&text))
	require.Equal(t, `
## Title

Note.

| name      |    µs |
|-----------|------:|
| a         |     1 |
| long name | 1,000 |
`, text.String())
}
