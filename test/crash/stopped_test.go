// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2: a process that was stopped past its lease finds out at its first check, whatever its timers have done
// by then.
func TestFirstCheckAfterAPauseReportsTheLoss(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes are stopped for longer than their leases last")
	f := newFixture(t)
	f.pauseAll(t, f.holders(t, len(stopped())))
}

func TestSoakFirstCheckAfterAPauseReportsTheLoss(t *testing.T) { //nolint:paralleltest // has the machine to itself
	f, pauses := newFixture(t), 0
	for more := locktest.Soak(t); more(); {
		holders := f.holders(t, 16)
		f.pauseAll(t, holders)
		pauses += len(holders)
	}
	t.Logf("%d pauses, all reported by the first check", pauses)
}

// pauseAll stops the children until their keys have ended and others have the locks, and asks them. The
// question is there before they continue.
func (f *fixture) pauseAll(t *testing.T, holders []*childHolder) {
	t.Helper()
	for _, h := range holders {
		h.Send("check")
		says(t, h.Process, "good")
		h.Freeze()
	}
	for _, h := range holders {
		lease, err := h.rival.New(f.session, h.name).Lock(locktest.Context(t))
		require.NoError(t, err, h.name)
		h.Send("check")
		h.Thaw()
		says(t, h.Process, "lost")
		require.NoError(t, lease.Err(), "the next holder was disturbed")
		require.NoError(t, lease.Unlock())
	}
	for _, h := range holders {
		h.CloseInput()
	}
	for _, h := range holders {
		require.Zero(t, h.Wait(redistest.WaitLimit), h.Stderr())
	}
}

// childHolder is a child with the lock that it holds.
type childHolder struct {
	*redistest.Process

	name  string
	rival locktest.Primitive // the kind that requests the lock while the other is stopped
}

// stopped are the kinds of lock that processes hold while they are stopped.
func stopped() []locktest.Primitive { return append(locktest.Primitives(), locktest.Reader()) }

// holders starts n children, as many of each kind, and waits until each holds its lock.
func (f *fixture) holders(t *testing.T, n int) []*childHolder {
	t.Helper()
	all := make([]*childHolder, n)
	for i := range all {
		f.serial++
		kind := stopped()[i%len(stopped())]
		name, rival := fmt.Sprint("stopped/", kind.Name, f.serial), kind
		if kind.Name == locktest.Reader().Name {
			rival = locktest.Writer() // which it keeps out
		}
		all[i] = &childHolder{start(t, "holder", f.server, kind.Name, name, 4*time.Second), name, rival}
	}
	for _, h := range all {
		says(t, h.Process, "held")
	}
	return all
}
