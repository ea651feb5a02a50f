// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is Postgres with the advisory locks of a connection, which it keeps in memory, however durable its tables are.
func postgres() store {
	kept := survival{"freed when its connection ends", "lost", "lost"}
	return store{"Postgres", inMemory, kept, startPostgres, []client{{"pg_advisory_lock", joinPostgres}}}
}

func startPostgres() (*server, error) {
	binary, err := postgresBinary("postgres")
	if err != nil {
		return nil, err
	}
	initdb, err := postgresBinary("initdb")
	if err != nil {
		return nil, err
	}
	version, _ := versionOf(binary)
	folder, err := folderFor(inMemory)
	if err != nil {
		return nil, err
	}
	as, err := postgresUser(folder)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	create := exec.Command(initdb, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync") //nolint:noctx // it ends by itself
	create.Dir, create.SysProcAttr = folder, &syscall.SysProcAttr{Credential: as}
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addresses[0])
	stop, err := daemon{binary, []string{
		"-D", data, "-p", port, "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=400", "-c", "log_min_messages=fatal",
	}, as}.run(folder)
	if err != nil {
		return nil, err
	}
	s := &server{version, addresses[0], stop}
	if err := await(func() (process, error) { return joinPostgres(s.address, 0) }); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// postgresBinary returns the path of a program of Postgres, which Debian puts beside the PATH.
func postgresBinary(name string) (string, error) {
	path, err := exec.LookPath(name)
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); err != nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	return path, err
}

// postgresUser returns the user to run Postgres as, which refuses to run as root, and gives the folder to it.
func postgresUser(folder string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the user of this process
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(folder, uid, gid)
}

// postgresProcess has a connection for each lock that it holds or waits for.
type postgresProcess struct{ pool *pgxpool.Pool }

func joinPostgres(address string, _ time.Duration) (process, error) {
	pool, err := pgxpool.New(context.Background(), "postgres://postgres@"+address+"/postgres?pool_max_conns=64")
	return postgresProcess{pool}, err
}

func (p postgresProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	c, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	key := int64(h.Sum64())      //nolint:gosec // any number will do
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
		c.Release()
		return nil, err
	}
	return func() error {
		defer c.Release()
		_, err := c.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", key)
		return err
	}, nil
}

func (p postgresProcess) close() error { p.pool.Close(); return nil }
