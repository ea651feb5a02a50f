// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // the digest by which a server names a script, no secret
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// scriptsEnv makes a child run other versions of the lock's scripts: "next" or "older".
const scriptsEnv = "SIGNALBOX_INTEROP_SCRIPTS"

// nextScript returns the version of a script that a later release could have: a change of a comment is one, since the server
// knows a script by its text. When a script has two versions, they are the ones to compare.
func nextScript(s *scripts.Script) *scripts.Script {
	header := fmt.Sprintf("-- %s v%d\n", s.Name, s.Version)
	if !strings.Contains(s.Source, header) {
		panic(s.Name + " has no header")
	}
	next := &scripts.Script{Name: s.Name, Version: s.Version + 1}
	next.Source = strings.Replace(s.Source, header, fmt.Sprintf("-- %s v%d\n", s.Name, next.Version), 1)
	next.SHA1 = fmt.Sprintf("%x", sha1.Sum([]byte(next.Source))) //nolint:gosec // see the import
	return next
}

// withoutRecalls returns the version of a script that a client has which knows no holds that may be idle: it sends no recall.
func withoutRecalls(s *scripts.Script) *scripts.Script {
	older := nextScript(s)
	older.Source = regexp.MustCompile(`(?m)^ +recall\(.*\)\n`).ReplaceAllString(older.Source, "")
	older.SHA1 = fmt.Sprintf("%x", sha1.Sum([]byte(older.Source))) //nolint:gosec // see the import
	return older
}

// upgrade makes this process a client of another release, if it is to be one. A process has one version, since all of its
// sessions run the scripts of package scripts. It is called before the process has a session.
func upgrade() {
	version := map[string]func(*scripts.Script) *scripts.Script{"next": nextScript, "older": withoutRecalls}[os.Getenv(scriptsEnv)]
	if version == nil {
		return
	}
	for _, s := range lockScripts() {
		*s = *version(s)
	}
}

// lockScripts are those that a client of the default lock runs.
func lockScripts() []*scripts.Script {
	return []*scripts.Script{
		scripts.SessionHello, scripts.LockEnter, scripts.LockPoll, scripts.LockHeartbeat, scripts.LockKeep, scripts.LockLeave, scripts.LockFree, scripts.LockRequeue,
		scripts.LockForce, scripts.LockWaiters, scripts.HolderRenew,
	}
}

// runTaker acquires and releases the lock "a" as the lines of its input say.
func runTaker(stdin io.Reader, stdout io.Writer) {
	upgrade()
	ctx := context.Background()
	s, err := signalbox.Dial(ctx, os.Getenv(urlEnv))
	must(err)
	lock := fair.New(s, "a")
	var lease signalbox.Lease
	for in := bufio.NewScanner(stdin); in.Scan(); {
		if in.Text() == "lock" {
			lease, err = lock.Lock(ctx)
			must(err)
			fmt.Fprintln(stdout, "held", lease.Token())
			continue
		}
		must(lease.Unlock())
		fmt.Fprintln(stdout, "released")
	}
	must(s.Close(ctx))
}

// startTaker starts a taker of a version.
func startTaker(t *testing.T, server *redistest.Server, version string) *redistest.Process {
	t.Helper()
	return redistest.Child(t, "taker", urlEnv+"="+server.URL(), scriptsEnv+"="+version)
}

// P1, P3: the release of either version grants the lock to the waiter of the other, in the same step.
func TestVersionsOfTheScriptsHandOverToEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	session, next := locktest.SteadySession(t, server), startTaker(t, server, "next")
	lock := fair.New(session, "a")
	lease := locktest.Must(t, lock.Lock)
	for range redistest.Rounds(5, 200) {
		next.Send("lock")
		redistest.Await(t, "the next version waits", func() bool { return locktest.Tickets(t, server, "a") == 1 })
		require.NoError(t, lease.Unlock())
		require.False(t, isHeldBy(t, server, session))
		require.Zero(t, locktest.Tickets(t, server, "a"))
		token := tokenOf(t, says(t, next))
		require.Greater(t, token, lease.Token())

		taken := locktest.Queue(locktest.Context(t), t, lock.Lock)
		redistest.Await(t, "this version waits", func() bool { return locktest.Tickets(t, server, "a") == 1 })
		next.Send("unlock")
		require.Equal(t, "released", says(t, next))
		require.True(t, isHeldBy(t, server, session))
		lease = locktest.MustHave(t, taken)
		require.Greater(t, lease.Token(), token)
	}
	require.NoError(t, lease.Unlock())
	endsWell(t, next)
}

// P6: a client that sends no recall gets an idle lock all the same, long before its time is over: by the next renewal. The token
// of each use is greater, on both sides.
func TestOlderClientRecallsByTheRenewal(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the holder learns of the waiter by its next renewal")
	require.NotEqual(t, nextScript(scripts.LockEnter).Source, withoutRecalls(scripts.LockEnter).Source)
	server := redistest.Start(t)
	session, older := locktest.Session(t, server), startTaker(t, server, "older")
	lock := reentrant.New(session, "a", signalbox.WithKeepWarm(time.Minute), signalbox.WithFirstLease(3*time.Second))
	token := keepIdle(t, session, lock)
	older.Send("lock")
	taken := tokenOf(t, says(t, older))
	require.Greater(t, taken, token)
	require.Zero(t, session.IdleLocks())
	older.Send("unlock")
	require.Equal(t, "released", says(t, older))
	require.Greater(t, keepIdle(t, session, lock), taken)
	endsWell(t, older)
}

// keepIdle uses the lock until the session keeps it, and returns the token of that use.
func keepIdle(t *testing.T, session *signalbox.Session, lock *reentrant.Lock) (token uint64) {
	t.Helper()
	redistest.Await(t, "an idle lock", func() bool {
		lease := locktest.Must(t, lock.Lock)
		token = lease.Token()
		_ = lease.Unlock() // which a machine that stalls for long enough has lost
		return session.IdleLocks() == 1
	})
	return token
}

// isHeldBy reports whether a session holds the lock "a", which is held.
func isHeldBy(t *testing.T, server *redistest.Server, session *signalbox.Session) bool {
	t.Helper()
	value := fmt.Sprint(server.MustDo(t, "GET", locktest.Key("a")))
	require.True(t, locktest.IsHeld(value), "the lock was not granted to the waiter")
	return value[20:42] == session.ID()
}
