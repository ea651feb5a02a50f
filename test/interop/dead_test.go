// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// runHolder acquires the lock "a", says so, and holds it until its input ends. It replies to each line with
// the state of its lease, and with what Unlock returned if the line asks for a release.
func runHolder(stdin io.Reader, stdout io.Writer) {
	s := dial()
	lease, err := reentrant.New(s, "a").Lock(context.Background())
	must(err)
	fmt.Fprintln(stdout, "held")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		fmt.Fprintf(stdout, "lost %t, reported by Unlock %t\n", errors.Is(lease.Err(), signalbox.ErrLost), errors.Is(lease.Unlock(), signalbox.ErrLost))
	}
}

// holds starts a process in Go that holds the lock "a", and renews it for as long as it lives.
func holds(t *testing.T, server *redistest.Server) *redistest.Process {
	t.Helper()
	holder := child(t, "holder", server, 5*time.Second)
	said, err := holder.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, holder.Stderr())
	require.Equal(t, "held", said)
	return holder
}

// now returns the server's time in milliseconds; its clock is this machine's.
func now() int64 { return time.Now().UnixMilli() }

// renewed waits until a key lives longer than it did.
func renewed(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	before := redistest.EndOf(t, server, key)
	redistest.Await(t, key+" is renewed", func() bool { return redistest.EndOf(t, server, key) > before })
}

// P1, P6: a lock whose holder in Java was killed goes to Go when it ends, and not before.
func TestALockOfADeadJavaProcessGoesToGo(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newProcess(t, release, server), newGoSide(t, server, byLock)
		p.must(t, "a", "lock", "a", -1)
		taken := g.take("a")
		awaitListeners(t, server, "a", 1)
		renewed(t, server, "a")
		p.Kill()
		last := redistest.EndOf(t, server, "a")
		took(t, taken)
		require.GreaterOrEqual(t, now(), last)
		g.release(t, "a")
		awaitNothing(t, server)
	})
}

// P1, P2: a process in Go that was stopped past its lease knows that at its first check, and leaves alone what Java has since.
func TestAStoppedGoProcessLeavesJavaAlone(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, holder := newPeer(t, release, server), holds(t, server)
		holder.Freeze()
		p.must(t, "a", "lock", "a", time.Hour.Milliseconds())
		has, until := hash(t, server, "a"), redistest.EndOf(t, server, "a")
		require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, has)
		holder.Thaw()
		holder.Send("how is it?")
		said, err := holder.ReadLine(redistest.WaitLimit)
		require.NoError(t, err, holder.Stderr())
		require.Equal(t, "lost true, reported by Unlock true", said)
		require.Equal(t, has, hash(t, server, "a"))
		require.Equal(t, until, redistest.EndOf(t, server, "a"))
		p.must(t, "a", "unlock", "a")
	})
}
