// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The environment variables of a child.
const (
	urlEnv  = "URL"
	kindEnv = "KIND"
	nameEnv = "NAME"
	lifeEnv = "LIFE"
)

// limit is how long a test waits for what a child has to say, beside many others that start on a busy machine. Only a broken
// promise takes that long.
const limit = 3 * time.Minute

// kinds has the kinds whose processes crash, and by its name what the processes of each acquire. Readers
// stop beside writers.
func kinds() map[string][]locktest.Primitive {
	all := map[string][]locktest.Primitive{}
	for _, p := range locktest.Primitives() {
		all[p.Name] = []locktest.Primitive{p}
	}
	writer := locktest.Writer().Name
	all[writer] = append(all[writer], locktest.Reader())
	return all
}

// start runs a child that uses a server.
func start(t *testing.T, child string, server *redistest.Server, kind, name string, life time.Duration) *redistest.Process {
	t.Helper()
	return redistest.Child(t, child, urlEnv+"="+server.URL(), kindEnv+"="+kind, nameEnv+"="+name, lifeEnv+"="+life.String())
}

// says reads the child's next line and fails the test if it is another.
func says(t *testing.T, p *redistest.Process, want string) {
	t.Helper()
	line, err := p.ReadLine(limit)
	require.NoError(t, err, p.Stderr())
	require.Equal(t, want, line, p.Stderr())
}

// dial opens the session of a child. A child that fails ends with its error.
func dial() *signalbox.Session {
	life, err := time.ParseDuration(os.Getenv(lifeEnv))
	must(err)
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv), signalbox.WithDefaults(signalbox.WithRenewedLease(life)))
	must(err)
	return s
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runHolder acquires the lock and reports that. It replies to every line with the state of its lease.
func runHolder(stdin io.Reader, stdout io.Writer) {
	s := dial()
	lease, err := locktest.PrimitiveNamed(os.Getenv(kindEnv)).New(s, os.Getenv(nameEnv)).Lock(context.Background())
	must(err)
	fmt.Fprintln(stdout, "held")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		fmt.Fprintln(stdout, opinion(lease))
	}
	must(s.Close(context.Background()))
}

// runYoung acquires the lock and kills itself.
func runYoung(_ io.Reader, _ io.Writer) {
	s := dial()
	_, err := locktest.PrimitiveNamed(os.Getenv(kindEnv)).New(s, os.Getenv(nameEnv)).Lock(context.Background())
	must(err)
	must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// opinion returns what a first check of a lease says. The context is checked before the lease, which ends
// it if it is over.
func opinion(lease signalbox.Lease) string {
	bound := lease.Bind(context.Background()).Err()
	err := lease.Err()
	switch {
	case err == nil && bound == nil:
		return "good"
	case errors.Is(err, signalbox.ErrLost) && bound != nil:
		return "lost"
	}
	return fmt.Sprintf("lease %v, context %v", err, bound)
}

// names is how many locks the workers share.
const names = 3

// runWorker acquires and releases locks, with several goroutines, and prints a line for each step.
func runWorker(_ io.Reader, stdout io.Writer) {
	s, sides := dial(), kinds()[os.Getenv(kindEnv)]
	var group sync.WaitGroup
	for i := range 2 * names {
		group.Go(func() {
			side := sides[i/names%len(sides)]
			lock := side.New(s, os.Getenv(nameEnv)+strconv.Itoa(i%names))
			for {
				lease, err := lock.Lock(context.Background())
				must(err)
				fmt.Fprintln(stdout, "held")
				// Its lease is short: it ends if the machine stalls for a moment.
				err = lease.Unlock()
				if err != nil && !errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrLost) {
					must(err)
				}
				fmt.Fprintln(stdout, "free")
			}
		})
	}
	group.Wait()
}
