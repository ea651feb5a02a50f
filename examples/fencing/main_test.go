// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/database"
	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestLateWriterIsRefused(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"the slow writer has the lock, checks its lease, and is paused",
			"the quick writer has written",
			"the slow writer is refused: a later holder has written",
			"the order is: new, paid",
		}, lines)
	})
}

// The statement that the page shows for rows that may not exist yet refuses smaller tokens, and takes the same one again.
func TestUpsertOfThePageRefusesSmallerTokens(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/fencing-in-sql.md")
	require.NoError(t, err)
	_, upsert, found := strings.Cut(string(page), "```sql\n")
	require.True(t, found)
	upsert, _, _ = strings.Cut(upsert, "```")

	db, err := database.Open(t.Context(), schema)
	require.NoError(t, err)
	defer db.Close()
	for _, write := range []struct{ token, rows int64 }{{5, 1}, {4, 0}, {5, 1}, {6, 1}} {
		result, err := db.ExecContext(t.Context(), upsert, "43", "paid", write.token)
		require.NoError(t, err)
		rows, err := result.RowsAffected()
		require.NoError(t, err)
		require.Equal(t, write.rows, rows, "token %d", write.token)
	}
}
