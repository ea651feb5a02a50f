// SPDX-License-Identifier: Apache-2.0

package setnx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/setnx"
)

func TestLocksOfThisLibraryAreListed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(setnx.Layout())))
	held := locktest.Must(t, reentrant.New(s, "lock").Lock)
	entries, err := inspect.Name(locktest.Context(t), s, "lock")
	require.NoError(t, err)
	require.Equal(t, []any{inspect.Reentrant, 1, s.ID()}, []any{entries[0].Kind, entries[0].HolderCount, entries[0].Holders[0].Session})

	server.MustDo(t, "SET", "theirs", "Zm9vYmFyYmF6cXV4", "PX", "60000")
	server.MustDo(t, "RPUSH", "list", "1")
	listed := 0
	for entry, err := range inspect.Names(locktest.Context(t), s, "") {
		require.NoError(t, err)
		require.Equal(t, []any{"lock", inspect.Reentrant}, []any{entry.Name, entry.Kind})
		listed++
	}
	require.Equal(t, 1, listed)
	entries, err = inspect.Name(locktest.Context(t), s, "theirs")
	require.NoError(t, err)
	require.Equal(t, []any{1, "Zm9vYmFyYmF6cXV4", ""}, []any{entries[0].HolderCount, entries[0].Holders[0].Label, entries[0].Holders[0].Session})
	entries, err = inspect.Name(locktest.Context(t), s, "list")
	require.NoError(t, err)
	require.Equal(t, []any{"list", inspect.Foreign}, []any{entries[0].Name, entries[0].Kind})
	entries, err = inspect.Name(locktest.Context(t), s, "nothing")
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, inspect.Break(locktest.Context(t), s, "lock"))
	require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)
}
