// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P9: sessions with different prefixes do not exclude each other.
func TestPrefixesKeepSessionsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	other := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server, signalbox.WithPrefix("")), "a").Lock)
	require.Equal(t, []string{"sb:{a}:lock", "{a}:lock"}, server.Keys("*"))
	require.NoError(t, one.Unlock())
	require.NoError(t, other.Unlock())
}
