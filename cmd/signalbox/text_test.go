// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
)

// Whatever a text from outside has in it, what is printed can be printed, and JSON means the same.
func TestNoTextFromOutsideReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	const strange = "\u009b2J \u202e \x1b]0;x\x07 \x7f \u2028 \u200b \U000e0041 \ufeff <b> 名 é 😀"
	e := inspect.Entry{Name: strange, Key: strange, Value: strange, Holders: []inspect.Holder{{Label: strange}}, Waiters: []inspect.Waiter{{Label: strange}}}
	line, err := jsonLine(e)
	require.NoError(t, err)
	var read inspect.Entry
	require.NoError(t, json.Unmarshal(line, &read))
	require.Equal(t, e, read)
	for _, text := range []string{string(line), oneLine(errors.New(strange)) + "\n", shown(strange) + "\n", printable(strange) + "\n"} {
		body := strings.TrimSuffix(text, "\n")
		require.NotContains(t, body, "\n")
		for _, r := range body {
			require.True(t, strconv.IsPrint(r), "%U in %s", r, text)
		}
		require.Contains(t, text, "名 é 😀")
	}
	require.Equal(t, `signalbox: a \x1b[2J b`, oneLine(errors.New("signalbox: a\n \x1b[2J\tb")))
}
