// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http/httptest"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

func TestTheMetricsOfALockAreExported(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	session, metrics, err := connect(t.Context(), "redis://"+server.Addr())
	require.NoError(t, err)
	defer session.Close(t.Context())
	lease, err := reentrant.New(session, "report", signalbox.WithClass("reports")).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Contains(t, w.Body.String(), `signalbox_lock_class="reports"`)
}
