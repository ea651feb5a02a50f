// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The environment of a child.
const (
	urlEnv  = "URL"
	nameEnv = "NAME"
	sideEnv = "SIDE"
	lifeEnv = "LIFE"
)

// start runs a child that uses the server.
func (f *fixture) start(t *testing.T, child string, side locktest.Primitive, name string, life time.Duration) *redistest.Process {
	t.Helper()
	return redistest.Child(t, child, urlEnv+"="+f.server.URL(), nameEnv+"="+name, sideEnv+"="+side.Name, lifeEnv+"="+life.String())
}

// says reads the child's next line and fails the test if it does not begin so.
func says(t *testing.T, p *redistest.Process, want string) {
	t.Helper()
	line, err := p.ReadLine(limit)
	require.NoError(t, err, p.Stderr())
	require.True(t, strings.HasPrefix(line, want), "%q instead of %q; it said %s", line, want, p.Stderr())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dial() *signalbox.Session {
	life, err := time.ParseDuration(os.Getenv(lifeEnv))
	must(err)
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv), signalbox.WithDefaults(signalbox.WithRenewedLease(life)))
	must(err)
	return s
}

// sideOf returns the side of a user: r or w.
func sideOf(mode string) locktest.Primitive {
	return map[string]locktest.Primitive{"r": locktest.Reader(), "w": locktest.Writer()}[mode]
}

// runSide acquires one side of the lock, says "held", and releases it when it reads a line.
func runSide(stdin io.Reader, stdout io.Writer) {
	s := dial()
	fmt.Fprintln(stdout, "began")
	lease, err := locktest.PrimitiveNamed(os.Getenv(sideEnv)).New(s, os.Getenv(nameEnv)).Lock(context.Background())
	must(err)
	fmt.Fprintln(stdout, "held")
	bufio.NewScanner(stdin).Scan()
	fmt.Fprintln(stdout, "unlocked", lease.Unlock())
	must(s.Close(context.Background()))
}

// runCrowd lets readers and writers use the lock until it is killed, each in a session of its own or two in one.
// It says when it has begun.
func runCrowd(_ io.Reader, stdout io.Writer) {
	options, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	locktest.Steady(&options)
	client, err := rueidis.NewClient(options)
	must(err)
	notes := &holderLog{client, os.Getenv(nameEnv)}
	modes := []string{"w", "r", "r", "r", "shared"}
	sessions := make([]*signalbox.Session, len(modes))
	for i := range sessions {
		sessions[i] = dial()
	}
	fmt.Fprintln(stdout, "began") // from here on a stop hits no Dial, which would fail
	var group sync.WaitGroup
	for i, mode := range modes {
		for j := range map[string]int{"w": 1, "r": 1, "shared": 3}[mode] {
			group.Go(func() { must(notes.endless(lockUser{sessions[i], fmt.Sprint(i, ".", j), mode[:1]}, mode)) })
		}
	}
	group.Wait()
}

// endless has turns of one user, with a moment's pause now and then, and gives some of them up.
func (h *holderLog) endless(u lockUser, mode string) error {
	for {
		side, options := locktest.Reader(), []signalbox.LockOption{own()}
		switch mode {
		case "w":
			side, options = locktest.Writer(), nil
		case "shared":
			u.mode, options = "r", nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if rand.N(10) == 0 {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), rand.N(20*time.Millisecond))
		}
		_, err := h.turn(ctx, u, side.New(u.session, h.name, options...))
		ended := ctx.Err() != nil
		cancel()
		if err != nil && !ended {
			return err
		}
	}
}
