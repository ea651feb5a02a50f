// SPDX-License-Identifier: Apache-2.0

package words_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

// Whatever a text from outside has in it, what is printed can be printed, and JSON means the same.
func TestNoTextFromOutsideReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	const strange = "\u009b2J \u202e \x1b]0;x\x07 \x7f \u2028 \u200b \U000e0041 \ufeff <b> 名 é 😀"
	e := inspect.Entry{Name: strange, Key: strange, Value: strange, Holders: []inspect.Holder{{Label: strange}}, Waiters: []inspect.Waiter{{Label: strange}}}
	line, err := words.JSONLine(e)
	require.NoError(t, err)
	var read inspect.Entry
	require.NoError(t, json.Unmarshal(line, &read))
	require.Equal(t, e, read)
	for _, text := range []string{string(line), words.OneLine(errors.New(strange)) + "\n", words.Shown(strange) + "\n", words.Printable(strange) + "\n"} {
		body := strings.TrimSuffix(text, "\n")
		require.NotContains(t, body, "\n")
		for _, r := range body {
			require.True(t, strconv.IsPrint(r), "%U in %s", r, text)
		}
		require.Contains(t, text, "名 é 😀")
	}
	require.Equal(t, `signalbox: a \x1b[2J b`, words.OneLine(errors.New("signalbox: a\n \x1b[2J\tb")))
}

func TestALateListSaysSo(t *testing.T) {
	t.Parallel()
	for text, now := range map[string]inspect.Snapshot{
		"": {Complete: true, Age: time.Second, Keys: 20},
		"not all names are found yet: 5 of 20 keys examined":                  {Keys: 20, Examined: 5},
		"names that are new since 2m0s may be missing: 5 of 20 keys examined": {Complete: true, Age: 2 * time.Minute, Keys: 20, Examined: 5},
	} {
		require.Equal(t, text, words.Lateness(now))
	}
	require.Equal(t, "7 keys examined", words.Examined(7, 0))
}
