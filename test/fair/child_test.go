// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The environment variables of a child.
const (
	urlEnv      = "URL"
	nameEnv     = "NAME"
	sessionsEnv = "SESSIONS" // how many it has, each with a client of its own
	usersEnv    = "USERS"    // goroutines of each session
	goalEnv     = "GOAL"     // of a crowd: how often the first in the queue is to have been next
	leaseEnv    = "LEASE"    // of its locks
	skewEnv     = "SKEW"     // how wrong its wall clock is
)

// workOrder is what a child is asked to do.
type workOrder struct {
	name            string // the name of the lock
	sessions, users int
	goal            int64
	lease           time.Duration // 0 is the library's own
	skew            time.Duration
}

// start runs a child that uses the server.
func (f *fixture) start(t *testing.T, child string, o workOrder) *redistest.Process {
	t.Helper()
	const patient = "?dial_timeout=20s&write_timeout=20s" // a server may be silent on a busy machine
	return redistest.Child(t, child, urlEnv+"="+f.server.URL()+patient, nameEnv+"="+o.name,
		fmt.Sprintf("%s=%d", sessionsEnv, o.sessions), fmt.Sprintf("%s=%d", usersEnv, o.users),
		fmt.Sprintf("%s=%d", goalEnv, o.goal), fmt.Sprintf("%s=%v", leaseEnv, o.lease), fmt.Sprintf("%s=%v", skewEnv, o.skew))
}

// says reads the child's next line and fails the test if it does not begin so.
func says(t *testing.T, p *redistest.Process, within time.Duration, want string) string {
	t.Helper()
	line, err := p.ReadLine(within)
	require.NoError(t, err, p.Stderr())
	require.True(t, strings.HasPrefix(line, want), "%q instead of %q; it said %s", line, want, p.Stderr())
	return line
}

func number(env string) int {
	n, err := strconv.Atoi(os.Getenv(env))
	must(err)
	return n
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open opens the sessions of a child, after it has put its clock wrong.
func open() []*signalbox.Session {
	skew, err := time.ParseDuration(os.Getenv(skewEnv))
	must(err)
	clock.Skew(skew)
	lease, err := time.ParseDuration(os.Getenv(leaseEnv))
	must(err)
	var options []signalbox.SessionOption
	if lease > 0 {
		options = append(options, signalbox.WithDefaults(signalbox.WithRenewedLease(lease)))
	}
	sessions := make([]*signalbox.Session, number(sessionsEnv))
	for i := range sessions {
		sessions[i], err = signalbox.Dial(context.Background(), os.Getenv(urlEnv), options...)
		must(err)
	}
	return sessions
}

// openHolderLog opens the log of a child.
func openHolderLog() *holderLog {
	options, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	locktest.Steady(&options)
	client, err := rueidis.NewClient(options)
	must(err)
	return &holderLog{client, os.Getenv(nameEnv)}
}

// together runs the users of each session and waits for them.
func together(sessions []*signalbox.Session, use func(user int, lock *fair.Lock)) {
	var group sync.WaitGroup
	for i, s := range sessions {
		for j := range number(usersEnv) {
			group.Go(func() { use(i*number(usersEnv)+j, fair.New(s, os.Getenv(nameEnv))) })
		}
	}
	group.Wait()
	for _, s := range sessions {
		must(s.Close(context.Background()))
	}
}

// runCrowd acquires the lock, makes a note and releases the lock, again and again, until the first in the
// queue was next as often as asked. It reports its begin and its end.
func runCrowd(_ io.Reader, stdout io.Writer) {
	sessions, notes, goal := open(), openHolderLog(), int64(number(goalEnv))
	defer notes.client.Close()
	fmt.Fprintln(stdout, "began")
	together(sessions, func(_ int, lock *fair.Lock) {
		must(notes.fill(context.Background(), lock, goal))
	})
	fmt.Fprintln(stdout, "done")
}

// fill makes one note after the other until the first in the queue was next goal times.
func (h *holderLog) fill(ctx context.Context, lock *fair.Lock, goal int64) error {
	for {
		n, err := h.turn(ctx, lock)
		if err != nil || n >= goal {
			return err
		}
	}
}

// turn has the lock once.
func (h *holderLog) turn(ctx context.Context, lock *fair.Lock) (followed int64, err error) {
	lease, err := lock.Lock(ctx)
	if err != nil {
		return 0, err
	}
	if followed, err = h.note(ctx, lease); err != nil {
		return 0, err
	}
	return followed, forgive(lease.Unlock())
}

// runQueue acquires the lock once for each user, and prints "granted" with the number of the user and the
// token. It keeps a lease until it reads a line, and then replies with the state of the lease.
func runQueue(stdin io.Reader, stdout io.Writer) {
	sessions, lines := open(), bufio.NewScanner(stdin)
	fmt.Fprintln(stdout, "began")
	var one sync.Mutex // the lock is one, but a stopped process may think that it has two
	together(sessions, func(user int, lock *fair.Lock) {
		lease, err := lock.Lock(context.Background())
		must(err)
		one.Lock()
		defer one.Unlock()
		fmt.Fprintln(stdout, "granted", user, lease.Token())
		lines.Scan()
		err = lease.Unlock()
		fmt.Fprintln(stdout, "unlocked", err)
	})
}
