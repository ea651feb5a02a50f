// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// codes returns the rows of the table in README.md.
func codes(t *testing.T) map[wire.Code]bool {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Reply codes\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	listed := make(map[wire.Code]bool)
	for _, row := range regexp.MustCompile(`(?m)^\| (-?\d+) \|`).FindAllStringSubmatch(section, -1) {
		code, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		require.NotContains(t, listed, wire.Code(code))
		listed[wire.Code(code)] = true
	}
	return listed
}

var (
	firstCode = regexp.MustCompile(`^\{?(-?\d+)\b`)
	byKey     = regexp.MustCompile(`[:,] (-?\d+) (?:it |all |the )`) // of the elements of a batch
)

// Every code that clients know has its row, is in use, and every code in use has its row.
func TestEveryCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	listed, used := codes(t), make(map[wire.Code]bool)
	every, err := scripts.All()
	require.NoError(t, err)
	for _, s := range every {
		h, _ := parse(t, s.Source)
		for _, shape := range h.returns {
			if m := firstCode.FindStringSubmatch(shape); m != nil {
				code, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				require.Contains(t, listed, wire.Code(code), "%s returns %s", s.Name, shape)
				used[wire.Code(code)] = true
			}
		}
		for _, m := range byKey.FindAllStringSubmatch(s.Source, -1) {
			if code, err := strconv.Atoi(m[1]); err == nil && (strings.HasSuffix(s.Name, "renew") || s.Name == "lock/keep") {
				require.Contains(t, listed, wire.Code(code), s.Name)
				used[wire.Code(code)] = true
			}
		}
	}
	require.Equal(t, listed, used)
	all := []wire.Code{
		wire.Done, wire.NotDone, wire.HadTicket, wire.MayQueue, wire.ReleasedOnly, wire.Marked, wire.Late, wire.Foreign, wire.NeedsQueue,
		wire.TooFew, wire.OtherCapacity, wire.Forgotten, wire.TooYoung, wire.Refused,
	}
	require.ElementsMatch(t, all, slices.Collect(maps.Keys(listed)))
}
