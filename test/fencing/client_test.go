// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

const (
	lockEnv  = "LOCK_URL"
	kindEnv  = "KIND"
	storeEnv = "STORE_URL"
	pacedEnv = "PACED"
	life     = 300 * time.Millisecond
	lockName = "counter"
)

// add adds one to the counter under the lock, and returns the store's error. The loss of the lease is no
// failure: the store is there for that. meanwhile runs between reading and writing.
func add(ctx context.Context, lock locktest.Lock, s *store, meanwhile func()) error {
	lease, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	within := context.WithoutCancel(ctx) // what was begun is carried through
	value, err := s.read(within, lease.Token())
	if err == nil {
		meanwhile()
		err = s.write(within, lease.Token(), value+1)
	}
	unlocked := lease.Unlock()
	if errors.Is(unlocked, signalbox.ErrLost) || errors.Is(unlocked, signalbox.ErrUnconfirmed) {
		unlocked = nil
	}
	return errors.Join(err, unlocked)
}

// runAdder says that it began, adds until it is killed, and says how each addition ended. A paced one says when
// it has read, and writes when it gets a line.
func runAdder(stdin io.Reader, stdout io.Writer) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(lockEnv), signalbox.WithDefaults(signalbox.WithRenewedLease(life)))
	must(err)
	options, err := rueidis.ParseURL(os.Getenv(storeEnv))
	must(err)
	locktest.Steady(&options)
	client, err := rueidis.NewClient(options)
	must(err)
	fmt.Fprintln(stdout, "began")
	in, meanwhile := bufio.NewScanner(stdin), func() {}
	if os.Getenv(pacedEnv) != "" {
		meanwhile = func() {
			fmt.Fprintln(stdout, "read")
			in.Scan()
		}
	}
	lock, kept := locktest.PrimitiveNamed(os.Getenv(kindEnv)).New(s, lockName), &store{client}
	for {
		switch err := add(context.Background(), lock, kept, meanwhile); {
		case err == nil:
			fmt.Fprintln(stdout, "added")
		case errors.Is(err, errStale):
			fmt.Fprintln(stdout, "stale")
		default:
			must(err)
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
