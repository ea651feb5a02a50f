// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/rwlock"
)

// rwEnds returns when each hold of a read-write lock expires on the server, by hold. In Redisson's layout it returns when
// the key expires.
func (f *fixture) rwEnds(name string) map[string]time.Time {
	ends := make(map[string]time.Time)
	if left := f.redis.TTL(name); left > 0 {
		ends[name] = time.Now().Add(left)
	}
	holds, _ := f.redis.ZMembers(locktest.Key(name)) // an error if there is no such key
	for _, hold := range holds {
		at, err := f.redis.ZScore(locktest.Key(name), hold)
		if end := time.UnixMicro(int64(at)); err == nil && end.After(time.Now()) {
			ends[hold] = end
		}
	}
	return ends
}

// rwWaiting returns how many readers and writers wait in the queues of a read-write lock.
func (f *fixture) rwWaiting(name string) int {
	writers, _ := f.redis.ZMembers(locktest.Keys(name).Writers())
	readers, _ := f.redis.ZMembers(locktest.Keys(name).Readers())
	return len(writers) + len(readers)
}

// rwFree fails the test if the lock "a" is held, or waited for.
func (f *fixture) rwFree(t *testing.T) {
	t.Helper()
	require.Empty(t, f.rwEnds("a"))
	require.Zero(t, f.rwWaiting("a"))
}

// keysEnd fails the test if there is a key that never expires.
func (f *fixture) keysEnd(t *testing.T) {
	t.Helper()
	for _, key := range f.redis.Keys() {
		require.Positive(t, f.redis.TTL(key), "%s never expires", key)
	}
}

// queued calls Lock on another goroutine, and returns when that waits.
func queued(ctx context.Context, lock locktest.Lock) <-chan lockResult {
	got := make(chan lockResult, 1)
	go func() {
		lease, err := lock.Lock(ctx)
		got <- lockResult{lease, err, time.Now()}
	}()
	synctest.Wait()
	return got
}

// granted receives the lease of a lock that was waited for.
func granted(t *testing.T, got <-chan lockResult) signalbox.Lease {
	t.Helper()
	h := <-got
	require.NoError(t, h.err)
	return h.lease
}

// rwContention is the holder of the lock "a", and the waiters behind it.
type rwCrowd struct {
	*fixture

	way           string // the way to the lease
	lock          locktest.Lock
	lease         signalbox.Lease
	requestedAt   time.Time     // the earliest instant at which the lease began
	user          queueUser     // the holder
	beside        locktest.Lock // reads in its session
	reader        locktest.Lock
	writer, other locktest.Lock // locks of sessions of their own, as reader is
}

// eachRWContention runs a test in a bubble for every way to a lease: a writer's and a reader's, at once and by a grant to a waiter,
// and a downgraded one; in the library's own layout and in Redisson's.
func eachRWContention(t *testing.T, options []signalbox.LockOption, test func(t *testing.T, r rwCrowd)) {
	t.Helper()
	for _, isShared := range []bool{false, true} {
		var layout []signalbox.LockOption
		if isShared {
			layout = []signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}
		}
		for _, way := range []string{"Writer", "WriterGranted", "Reader", "ReaderGranted", "Downgraded"} {
			name := way
			if isShared {
				name += "Redisson"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(f *fixture) {
					t := f.T
					users, closeAll := f.queueUsers(t, 4, time.Millisecond)
					defer closeAll()
					side := locktest.Writer()
					if strings.HasPrefix(way, "Reader") {
						side = locktest.Reader()
					}
					r := rwCrowd{
						fixture: f, way: name, user: users[0], requestedAt: time.Now(),
						lock:   side.New(users[0].Session, "a", append(options, layout...)...),
						beside: locktest.Reader().New(users[0].Session, "a", append(options, layout...)...),
						reader: locktest.Reader().New(users[1].Session, "a", layout...),
						writer: locktest.Writer().New(users[2].Session, "a", layout...),
						other:  locktest.Writer().New(users[3].Session, "a", layout...),
					}
					if strings.HasSuffix(way, "Granted") {
						before := atOnce(t, r.other)
						got := queuedAndListening(t.Context(), r.lock)
						r.requestedAt = time.Now()
						require.NoError(t, before.Unlock())
						r.lease = granted(t, got)
					} else {
						r.lease = atOnce(t, r.lock)
					}
					if way == "Downgraded" {
						lock := rwlock.New(users[0].Session, "a", append(options, layout...)...)
						require.NoError(t, lock.Downgrade(t.Context(), r.lease))
					}
					test(t, r)
				})
			})
		}
	}
}

// writes reports whether the lease excludes readers.
func (r rwCrowd) writes() bool { return strings.HasPrefix(r.way, "Writer") }
