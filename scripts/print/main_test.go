// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// What the command prints is the text that the server gets: its SHA-1 is the digest that SLOWLOG shows.
func TestPrintedTextHasTheDigest(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		var text bytes.Buffer
		require.NoError(t, write(&text, []*scripts.Script{s}, []string{s.Name}))
		require.NotContains(t, text.String(), "-- include ")
		require.Equal(t, s.SHA1, fmt.Sprintf("%x", sha1.Sum(text.Bytes()))) //nolint:gosec // what the server calls it by
	}
}

// Without names it lists every script; a name that there is not is an error.
func TestPrintListsEveryScript(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	var list bytes.Buffer
	require.NoError(t, write(&list, all, nil))
	for _, s := range all {
		require.Contains(t, list.String(), fmt.Sprintln(s.SHA1, s.Name, s.Version))
	}
	require.ErrorContains(t, write(&list, all, []string{"lock/none"}), "lock/none")
}
