// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// P1, P3: each history that a storm has written is one of a lock. One that is not stays in its folder.
func TestHistories(t *testing.T) {
	t.Parallel()
	folder := os.Getenv(historiesEnv)
	if folder == "" {
		t.Skip("histories are those of a storm: " + historiesEnv + " names their folder")
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			var h history
			require.NoError(t, json.Unmarshal(text, &h))
			var actions []action
			for _, line := range h.Actions {
				var a action
				_, err := fmt.Sscan(line, &a.verb, &a.who, &a.rival, &a.token, &a.from, &a.to)
				require.NoError(t, err)
				actions = append(actions, a)
			}
			kinds := Kinds()
			k := kinds[slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == h.Kind })]
			tally.Add("histories", "histories", 1)
			switch judge(k, actions) {
			case porcupine.Ok:
				tally.Add("histories", "operations", len(actions))
				tally.Add("operations", k.folder(), len(actions))
				require.NoError(t, os.Remove(name))
			case porcupine.Unknown:
				tally.Add("histories", "unknown", 1)
			default:
				tally.Add("histories", "illegal", 1)
				t.Error("no order of one lock explains it")
			}
		})
	}
}
