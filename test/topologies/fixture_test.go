// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// fixture is where one test runs: a primitive, on a topology, in a version of the protocol.
type fixture struct {
	*testing.T

	topology redistest.Topology
	protocol redistest.Protocol
	kind     locktest.Primitive
	admin    rueidis.Client
}

// everywhere runs a test of each kind of lock on every fixture.
func everywhere(t *testing.T, test func(f *fixture)) {
	t.Helper()
	everywhereOf(t, locktest.Primitives(), test)
}

// everywhereOf runs a test of some kinds on every fixture: under -short on every topology by one version of the protocol, in
// turn, and in a cluster by both.
func everywhereOf(t *testing.T, kinds []locktest.Primitive, test func(f *fixture)) {
	t.Helper()
	for i, s := range shared {
		for n, protocol := range redistest.Protocols() {
			if testing.Short() && n != i%2 && i < len(shared)-1 {
				continue
			}
			for _, kind := range kinds {
				t.Run(s.Name+"/"+protocol.Name+"/"+kind.Name, func(t *testing.T) {
					t.Parallel()
					redistest.NeedServer(t)
					top, err := s.get()
					require.NoError(t, err)
					f := &fixture{T: t, topology: top, protocol: protocol, kind: kind}
					f.admin = f.Client(t, locktest.Tuned)
					test(f)
				})
			}
		}
	}
}

// Client returns a client of the topology that speaks the fixture's protocol.
func (f *fixture) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return f.topology.Client(tb, func(o *rueidis.ClientOption) {
		mod(o)
		o.ConnWriteTimeout, o.Dialer.Timeout = redistest.Patience, redistest.Patience // no wire fails here, however long it takes
		f.protocol.Set(o)
	})
}

// session returns a session with a client of its own, as another process would have it.
func (f *fixture) session() *signalbox.Session {
	f.Helper()
	return locktest.Session(f.T, f)
}

// lock returns a lock of the fixture's kind, in a session of its own.
func (f *fixture) lock(name string, options ...signalbox.LockOption) locktest.Lock {
	f.Helper()
	return f.kind.New(f.session(), name, options...)
}

// reporting is lock for the kinds that report their holder.
func (f *fixture) reporting(name string) locktest.Forcible {
	f.Helper()
	lock, ok := f.lock(name).(locktest.Forcible)
	require.True(f, ok, "a lock that reports its holder")
	return lock
}

// names counts names, so that no two tests use the same one, however often they are repeated.
var names atomic.Int64

func (f *fixture) name() string { return fmt.Sprintf("%s %d", f.Name(), names.Add(1)) }

// query runs a command on the key of a lock, wherever that is.
func (f *fixture) query(name, command string, args ...string) rueidis.RedisResult {
	f.Helper()
	return f.admin.Do(locktest.Context(f), f.admin.B().Arbitrary(command).Keys(f.kind.Key(name)).Args(args...).Build())
}

// value returns the value of a lock's key, "" if there is no key.
func (f *fixture) value(name string) string {
	f.Helper()
	value, err := f.query(name, "GET").ToString()
	if !rueidis.IsRedisNil(err) {
		require.NoError(f, err)
	}
	return value
}

// isFree reports whether the lock is free, by the server's account.
func (f *fixture) isFree(name string) bool {
	f.Helper()
	kind, err := f.query(name, "TYPE").ToString()
	require.NoError(f, err)
	if kind == "zset" { // a member for each hold, and when it ends
		holds, err := f.query(name, "ZCOUNT", fmt.Sprintf("(%d", time.Now().UnixMicro()), "+inf").AsInt64()
		require.NoError(f, err)
		return holds == 0
	}
	value := f.value(name)
	return value == "" || strings.HasPrefix(value, "sb1-")
}

// eachKey calls do for every key of a lock's name, on every server that writes.
func (f *fixture) eachKey(name string, do func(c rueidis.Client, key string)) {
	f.Helper()
	f.eachServer(func(c rueidis.Client) {
		keys, err := c.Do(locktest.Context(f), c.B().Keys().Pattern(pattern(name)).Build()).AsStrSlice()
		require.NoError(f, err)
		for _, key := range keys {
			do(c, key)
		}
	})
}

// immortal returns the keys of a lock's name that have no end.
func (f *fixture) immortal(name string) (left []string) {
	f.Helper()
	f.eachKey(name, func(c rueidis.Client, key string) {
		ms, err := c.Do(locktest.Context(f), c.B().Pttl().Key(key).Build()).AsInt64()
		require.NoError(f, err)
		if ms == -1 {
			left = append(left, key)
		}
	})
	return left
}

// knows reports whether a key of a lock's name has a session, as the holder or as a waiter.
func (f *fixture) knows(name string, s *signalbox.Session) (found bool) {
	f.Helper()
	id := (*session.Handle)(s).Session().ID()
	f.eachKey(name, func(c rueidis.Client, key string) {
		bytes, err := c.Do(locktest.Context(f), c.B().Dump().Key(key).Build()).ToString()
		if !rueidis.IsRedisNil(err) {
			require.NoError(f, err)
		}
		found = found || strings.Contains(bytes, id)
	})
	return found
}

// listeners returns how many channels of a lock's name have subscribers.
func (f *fixture) listeners(name string) (count int) {
	f.Helper()
	f.eachServer(func(c rueidis.Client) {
		commands := []rueidis.Completed{c.B().PubsubChannels().Pattern(pattern(name)).Build()}
		if !redistest.IsOld(f) {
			commands = append(commands, c.B().PubsubShardchannels().Pattern(pattern(name)).Build())
		}
		for _, command := range commands {
			channels, err := c.Do(locktest.Context(f), command).AsStrSlice()
			require.NoError(f, err)
			count += len(channels)
		}
	})
	return count
}

// eachServer calls do for every server that writes.
func (f *fixture) eachServer(do func(rueidis.Client)) {
	f.Helper()
	for _, c := range f.admin.Nodes() {
		role, err := c.Do(locktest.Context(f), c.B().Role().Build()).ToArray()
		require.NoError(f, err)
		if text, _ := role[0].ToString(); text == "master" {
			do(c)
		}
	}
}

// pattern matches the keys and channels of a lock's name.
func pattern(name string) string {
	base := strings.TrimSuffix(locktest.Key(name), "lock")
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(base) + "*"
}

// mustLock locks, and fails the test if that does not succeed.
func (f *fixture) mustLock(ctx context.Context, l locktest.Lock) signalbox.Lease {
	f.Helper()
	lease, err := l.Lock(ctx)
	require.NoError(f, err)
	return lease
}

// mustBeHeld requires that another holder has the lock.
func (f *fixture) mustBeHeld(l locktest.Lock) {
	f.Helper()
	lease, err := l.TryLock(locktest.Context(f))
	require.ErrorIs(f, err, signalbox.ErrHeld)
	require.ErrorIs(f, lease.Err(), signalbox.ErrNotHeld)
}
