// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// closingSession is a session in full use that is closed.
type closingSession struct {
	session *signalbox.Session
	began   chan struct{} // receives a value of each user, once the user has had a lock
	ended   chan error
	leases  []signalbox.Lease // the last of each user; read once they have ended
}

const closeUsers = 16

func (f *fixture) closing(t *testing.T, of *signalbox.Session) *closingSession {
	t.Helper()
	c := &closingSession{of, make(chan struct{}, closeUsers), make(chan error, closeUsers), make([]signalbox.Lease, closeUsers)}
	// What a Close cannot release in time, on a machine that stalls, expires while the test waits for that.
	life := signalbox.WithRenewedLease(redistest.Patience / 2)
	for i := range closeUsers {
		go func() { c.ended <- c.use(i, f.kind.New(of, fmt.Sprint("closing/", i%5), life)) }()
	}
	for range closeUsers {
		redistest.Receive(t, "each user has had a lock", c.began)
	}
	return c
}

// use acquires and releases the lock until it gets ErrClosed.
func (c *closingSession) use(i int, lock locktest.Lock) error {
	for n := 0; ; n++ {
		lease, err := lock.Lock(context.Background())
		if errors.Is(err, signalbox.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			c.began <- struct{}{}
		}
		c.leases[i] = lease
		err = lease.Unlock()
		if err != nil && !errors.Is(err, signalbox.ErrLost) && !errors.Is(err, signalbox.ErrUnconfirmed) {
			return err
		}
	}
}

// over waits until every user has ended, within limit, and says what their leases must not.
func (c *closingSession) over(t *testing.T, limit time.Duration) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	for range closeUsers {
		select {
		case err := <-c.ended:
			require.NoError(t, err)
		case <-late.C:
			t.Fatal("a user of a closed session hangs")
		}
	}
	for _, lease := range c.leases {
		require.Error(t, lease.Err())
	}
}

// P4: a session that is closed while its locks are in use refuses all callers, and leaves nothing.
func TestCloseInFullUseLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, closeInFullUse)
}

func closeInFullUse(t *testing.T, f *fixture) {
	t.Helper()
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprint("ContextEnded=", ended), func(t *testing.T) {
			for range 3 {
				c := f.closing(t, signalbox.NewSession(f.server.Client(t, locktest.Steady)))
				ctx, cancel := context.WithCancel(t.Context())
				if ended {
					cancel()
				}
				begun := time.Now()
				err := c.session.Close(ctx)
				cancel()
				if !ended {
					require.NoError(t, err)
				}
				require.Less(t, time.Since(begun), redistest.Patience/2)
				c.over(t, redistest.Patience)
				require.NoError(t, c.session.Close(t.Context()), "the second Close")
				redistest.Await(t, "nothing is held", func() bool {
					_, held, err := f.view.Leaks()
					return err == nil && len(held) == 0
				})
			}
			f.view.NoImmortals(t)
		})
	}
}
