// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/jobs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestABusyTenantsJobsAreGivenBackAndWoken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	seen, err := run(t.Context(), server.URL(), "signalbox")
	require.NoError(t, err)
	require.Equal(t, perTenant, seen.Most, "jobs of a tenant at once, over both workers")
	require.Zero(t, seen.Retries, "no retry is spent")
	require.LessOrEqual(t, seen.Starts, 4*jobs.Tenants*jobs.Jobs, "few are woken")
	for _, key := range server.Keys("parked:*") {
		t.Errorf("%s is left", key)
	}
}
