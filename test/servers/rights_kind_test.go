// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// testedLock is what the work asks of a kind of lock.
type testedLock interface {
	locktest.Lock
	Holder(ctx context.Context) (signalbox.Holder, error)
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) error
}

// queuedLock is a kind of lock whose queue can be read.
type queuedLock interface {
	Waiters(ctx context.Context) iter.Seq2[signalbox.Waiter, error]
}

// rightsKind is one kind of lock.
type rightsKind struct {
	name    string
	newLock func(s *signalbox.Session, name string, options ...signalbox.LockOption) testedLock
	// crowd leaves behind what other sessions might leave, so that a waiter needs every right there is.
	crowd func(t *testing.T, s *servers, name string)
}

// rightsKinds are those that the suite runs with.
func rightsKinds() []rightsKind {
	return []rightsKind{
		{"reentrant", newOf(reentrant.New), deadBeforeAll},
		{"fair", newOf(fair.New), deadBeforeAll},
		{"rwlock", newOf(locktest.NewWriteLocker), func(t *testing.T, s *servers, name string) {
			t.Helper()
			deadInQueue(t, s, "", locktest.Keys(name).Writers(), locktest.Keys(name).RWHeartbeats())
		}},
	}
}

// newOf makes one function of every kind's New.
func newOf[L testedLock](make func(*signalbox.Session, string, ...signalbox.LockOption) L) func(
	*signalbox.Session, string, ...signalbox.LockOption) testedLock {
	return func(s *signalbox.Session, name string, options ...signalbox.LockOption) testedLock {
		return make(s, name, options...)
	}
}

// deadBeforeAll is deadInQueue for an exclusive lock, whose tickets end with a mode.
func deadBeforeAll(t *testing.T, s *servers, name string) {
	t.Helper()
	deadInQueue(t, s, "f", locktest.Keys(name).QueueKey(), locktest.Keys(name).HeartbeatsKey())
}

// deadInQueue puts a session at the head of a queue that is silent and was passed over once, and makes a
// hundred sessions known that have left for good. scripts/README.md explains the keys.
func deadInQueue(t *testing.T, s *servers, mode, line, known string) {
	t.Helper()
	const minutes = 5
	at := func(d time.Duration) string { return fmt.Sprintf("%016d", time.Now().Add(d).UnixMicro()) }
	number := strings.Repeat("0", 20)
	dead := strings.Repeat("d", 41) + mode
	// It keeps its ticket for ten seconds after its life.
	heartbeats := []string{"from", at(-time.Second) + dead, dead[:22], at(-2*time.Second) + number}
	for i := range 100 {
		heartbeats = append(heartbeats, fmt.Sprintf("%022d", i), at(-minutes*time.Minute)+number)
	}
	s.do(t, "ZADD", line, "1", dead)
	s.do(t, "HSET", known, heartbeats...)
	for _, key := range []string{line, known} {
		s.do(t, "PEXPIRE", key, fmt.Sprint((minutes * time.Minute).Milliseconds()))
	}
	t.Cleanup(func() { require.NoError(t, s.query("ZREM", line, dead).Error()) })
}
