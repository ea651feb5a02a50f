// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// runKeeper uses a lock until its session keeps it, and reports the token of that use. It uses the lock again for each line.
func runKeeper(stdin io.Reader, stdout io.Writer) {
	s := dial()
	lock := reentrant.New(s, os.Getenv(nameEnv), signalbox.WithKeepWarm(time.Minute))
	use := func() uint64 {
		lease, err := lock.Lock(context.Background())
		must(err)
		must(lease.Unlock())
		return lease.Token()
	}
	token := use()
	for s.IdleLocks() == 0 { // its messages do not arrive yet
		token = use()
	}
	fmt.Fprintln(stdout, "idle", token)
	for in := bufio.NewScanner(stdin); in.Scan(); {
		fmt.Fprintln(stdout, "used", use())
	}
	must(s.Close(context.Background()))
}

// startKeeper returns a process that keeps a lock, and the last token that it used.
func (f *fixture) startKeeper(t *testing.T, name string) (p *redistest.Process, token uint64) {
	t.Helper()
	p = start(t, "keeper", f.server, "", name, time.Hour)
	return p, saysToken(t, p, "idle")
}

// saysToken reads the child's next line, which is the word and a token.
func saysToken(t *testing.T, p *redistest.Process, word string) uint64 {
	t.Helper()
	line, err := p.ReadLine(limit)
	require.NoError(t, err, p.Stderr())
	text, found := strings.CutPrefix(line, word+" ")
	require.True(t, found, line)
	token, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return token
}

// P6: a process that is killed while a lock is idle delays the others by the first lease, however long it would have kept the
// lock, and however long its lease is.
func TestProcessThatIsKilledIdleDelaysTheOthersByThreeSeconds(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the first lease of a process that was killed has to expire on the server")
	const first = 3 * time.Second
	f := newFixture(t)
	keeper, token := f.startKeeper(t, "idle")
	keeper.Kill()
	killed := time.Now()
	ends := f.view.MustHold(t, "idle").Ends // the zero time if it has ended already
	require.False(t, ends.After(killed.Add(first)), "it ends at %v", ends)
	lease, err := reentrant.New(f.session, "idle").Lock(locktest.Context(t))
	require.NoError(t, err)
	require.Greater(t, lease.Token(), token)
	require.NoError(t, lease.Unlock())
}

// P1, P3: a process that is stopped while a lock is idle does not use it when it runs again: another process has it by then.
func TestProcessThatIsStoppedIdleAsksTheServer(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the first lease of a process that is stopped has to expire on the server")
	f := newFixture(t)
	keeper, token := f.startKeeper(t, "idle")
	keeper.Freeze()
	lease, err := reentrant.New(f.session, "idle").Lock(locktest.Context(t))
	require.NoError(t, err)
	require.Greater(t, lease.Token(), token)
	keeper.Send("use")
	keeper.Thaw()
	redistest.Await(t, "it waits in the queue", func() bool { return locktest.Tickets(t, f.server, "idle") == 1 })
	require.NoError(t, lease.Unlock())
	require.Greater(t, saysToken(t, keeper, "used"), lease.Token())
	keeper.CloseInput()
	require.Zero(t, keeper.Wait(limit), keeper.Stderr())
}
