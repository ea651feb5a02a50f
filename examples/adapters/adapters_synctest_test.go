// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/handler"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// inBubble runs a test in virtual time, with a session for each of two processes.
func inBubble(t *testing.T, test func(t *testing.T, kit *signalboxtest.Kit, one, two *signalbox.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		kit := signalboxtest.New(t)
		test(t, kit, kit.Session(), kit.Session())
	})
}

// soon returns a context that ends in a second.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestGooseMigratesInOneProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, kit *signalboxtest.Kit, one, two *signalbox.Session) {
		first, second := NewGoose(one, "migrations"), NewGoose(two, "migrations")
		_ = goose.WithSessionLocker(first) // it takes it
		require.NoError(t, first.SessionLock(t.Context(), nil))
		require.ErrorIs(t, second.SessionLock(soon(t), nil), signalbox.ErrHeld)
		require.NoError(t, first.SessionUnlock(t.Context(), nil))
		require.NoError(t, second.SessionLock(t.Context(), nil))
		kit.Lose("migrations")
		require.ErrorIs(t, second.SessionUnlock(t.Context(), nil), signalbox.ErrLost)
	})
}

func TestCertMagicHasOneHolder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *signalboxtest.Kit, one, two *signalbox.Session) {
		first, second := &CertMagic{Session: one}, &CertMagic{Session: two}
		require.NoError(t, first.Lock(t.Context(), "issue_cert_example.com"))
		done, err := second.TryLock(t.Context(), "issue_cert_example.com")
		require.NoError(t, err)
		require.False(t, done)
		require.NoError(t, first.Unlock(t.Context(), "issue_cert_example.com"))
		done, err = second.TryLock(t.Context(), "issue_cert_example.com")
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, second.Unlock(t.Context(), "issue_cert_example.com"))
		require.ErrorIs(t, second.Unlock(t.Context(), "issue_cert_example.com"), signalbox.ErrNotHeld)
	})
}

func TestClientGoElectsOneLeaderAfterAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, kit *signalboxtest.Kit, one, two *signalbox.Session) {
		leads := make(chan string, 10)
		candidate := func(s *signalbox.Session, id string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
					Lock:            &ResourceLock{Election: election.New(s, "controller"), ID: id},
					ReleaseOnCancel: true, LeaseDuration: election.DefaultLease, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { leads <- id },
						OnStoppedLeading: func() {},
					},
				})
			}()
			return func() { cancel(); <-ended }
		}
		stopOne := candidate(one, "one")
		require.Equal(t, "one", <-leads)
		stopTwo := candidate(two, "two")
		time.Sleep(time.Minute)
		require.Empty(t, leads)
		stopOne()
		require.Equal(t, "two", <-leads)

		stopThree := candidate(one, "three")
		kit.Partition(two) // it stops to lead, and the next one leads when its lease has ended
		require.Equal(t, "three", <-leads)
		kit.Heal(two)
		stopTwo()
		stopThree()
	})
}

func TestTusStopsAnUploadThatAnotherRequestWaitsFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, kit *signalboxtest.Kit, one, two *signalbox.Session) {
		lock := func(s *signalbox.Session) handler.Lock {
			l, err := Tus{s}.NewLock("42")
			require.NoError(t, err)
			return l
		}
		first, again, second := lock(one), lock(one), lock(two)
		require.NoError(t, first.Lock(t.Context(), func() { _ = first.Unlock() }))
		require.NoError(t, again.Lock(t.Context(), func() { _ = again.Unlock() }), "of the same process")
		require.NoError(t, second.Lock(t.Context(), func() {}), "of another process")
		require.ErrorIs(t, lock(one).Lock(soon(t), func() {}), handler.ErrLockTimeout)
		require.NoError(t, second.Unlock())

		lost := make(chan struct{})
		require.NoError(t, first.Lock(t.Context(), func() { close(lost) }))
		kit.Lose("upload/42")
		<-lost
		require.ErrorIs(t, first.Unlock(), signalbox.ErrLost)
	})
}
