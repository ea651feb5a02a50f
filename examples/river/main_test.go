// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/jobs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestABusyTenantsJobsAreSnoozedAndWoken(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	seen, err := run(t.Context(), redistest.Start(t).URL(), database, "signalbox")
	require.NoError(t, err)
	require.Equal(t, perTenant, seen.Most, "jobs of a tenant at once, over both workers")
	require.Zero(t, seen.Retries, "no attempt is spent")
	require.LessOrEqual(t, seen.Starts, 4*jobs.Tenants*jobs.Jobs, "few are woken")
}

// startPostgres starts a server for this test, and returns the URL of its database. It does not run as root, so root starts it
// as the user that Debian's package makes. It ends with this process.
func startPostgres(t *testing.T) string {
	t.Helper()
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if found, err := exec.LookPath("initdb"); err == nil {
		programs = []string{found}
	}
	if len(programs) == 0 {
		t.Skip("Postgres is not installed: no initdb in PATH or in /usr/lib/postgresql")
	}
	bin := filepath.Dir(programs[len(programs)-1])
	dir, err := os.MkdirTemp("", "signalbox-pg") //nolint:usetesting // another user cannot enter t.TempDir; short, for the socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		postgres, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("Postgres does not run as root, and there is no user postgres:", err)
		}
		uid, _ := strconv.Atoi(postgres.Uid)
		gid, _ := strconv.Atoi(postgres.Gid)
		require.NoError(t, os.Chown(dir, uid, gid))
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", "jobs", "-A", "trust", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = as, dir
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, "%s", out)
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-F") //nolint:noctx // it outlives the test's context, for the deferred calls
	server.SysProcAttr, server.Dir = as, dir
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // a fast shutdown
		_ = server.Wait()
	})
	url := "postgres:///postgres?user=jobs&host=" + dir
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			err = conn.Close(t.Context())
		}
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	return url
}
