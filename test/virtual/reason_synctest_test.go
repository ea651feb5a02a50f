// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// A lease whose key was deleted is reported as gone, also if the same session was granted the name before the loss was
// noticed. Close ended none.
func TestAHoldThatANewerOneReplacedIsReportedAsGone(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(fx *fixture) {
		var lost []signalbox.Event
		logger, log := logged()
		s, _, end := fx.session(fx.T, signalbox.WithLogger(logger), signalbox.WithObserver(signalbox.Observer{
			Lost: func(_ context.Context, e signalbox.Event) { lost = append(lost, e) },
		}))
		f := fair.New(s, "a")
		older, err := f.Lock(fx.Context())
		require.NoError(fx, err)
		fx.redis.Del(locktest.Key("a"))
		newer, err := f.Lock(fx.Context())
		require.NoError(fx, err)
		require.EqualError(fx, older.Err(), `signalbox: lock "a": the lease was lost: the server no longer has it; it was ended by force, deleted or evicted`)
		require.NoError(fx, newer.Unlock())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(fx, lost, 1)
		require.Equal(fx, "gone", lost[0].Outcome)
		require.Zero(fx, lost[0].Left)
		end()
		synctest.Wait()
		require.NotContains(fx, log.String(), "Close ended")
		require.Contains(fx, log.String(), "gone=true left=0s")
	})
}

// A lease that is lost before the hook Acquired returns is reported with its reason, too.
func TestAHoldThatIsLostWhileAcquiredRunsIsReportedAsGone(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		other := f.user().Session
		var lost []signalbox.Event
		s := f.user(signalbox.WithObserver(signalbox.Observer{
			Acquired: func(ctx context.Context, _ signalbox.Event) context.Context {
				time.Sleep(time.Second) // it listens by then
				require.NoError(f, fair.New(other, "a").ForceUnlock(ctx))
				time.Sleep(time.Second)
				return nil
			},
			Lost: func(_ context.Context, e signalbox.Event) { lost = append(lost, e) },
		})).Session
		lease, err := fair.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		synctest.Wait()
		require.Len(f, lost, 1)
		require.Equal(f, "gone", lost[0].Outcome)
		require.Zero(f, lost[0].Left)
	})
}

// Every error of a lease names the lock and the reason, in one plain sentence, and so does the cause of a context that ends with it.
func TestErrorsOfLeasesNameTheLockAndTheReason(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, link := f.open()
		ctx := f.Context()
		leases := make(map[string]signalbox.Lease)
		bound := make(map[string]context.Context)
		hold := func(want string, lease signalbox.Lease, err error) {
			require.NoError(f, err, want)
			leases[want], bound[want] = lease, lease.Bind(context.Background())
		}
		const late, fixed = "the lease was lost: it was not renewed in time", "the lease was lost: the time of its fixed lease is over"
		lease, err := reentrant.New(s, "order/42").Lock(ctx)
		hold(`lock "order/42": `+late, lease, err)
		lease, err = fair.New(s, "fair").Lock(ctx)
		hold(`lock "fair": `+late, lease, err)
		lease, err = fair.New(s, "fixed", signalbox.WithFixedLease(10*time.Second)).Lock(ctx)
		hold(`lock "fixed": `+fixed, lease, err)
		lease, err = fair.New(s, "max", signalbox.WithMaxHold(2*time.Second)).Lock(ctx)
		hold(`lock "max": the lease was held for as long as WithMaxHold allows`, lease, err)
		lease, err = rwlock.New(s, "rw").RLock(ctx)
		hold(`rwlock "rw": `+late, lease, err)
		lease, err = semaphore.New(s, "permits", 2).Acquire(ctx, 1)
		hold(`semaphore "permits": `+late, lease, err)
		lease, err = multilock.New(reentrant.New(s, "m")).Lock(ctx)
		hold(`hold "m": `+late, lease, err)
		term, err := election.New(s, "leads").Campaign(ctx)
		require.NoError(f, err)
		free, err := reentrant.New(s, "free").Lock(ctx)
		require.NoError(f, err)
		require.NoError(f, free.Unlock())
		require.EqualError(f, free.Err(), `signalbox: lock "free": the lease was released`)
		require.EqualError(f, free.Unlock(), `signalbox: unlock "free": the lease is not held`)
		unconfirmed := atOnce(f.T, reentrant.New(s, "a"))
		link.goSilent()
		require.Regexp(f, `^signalbox: unlock "a": the server did not confirm the release; the hold ends by itself at \d\d:\d\d:\d\d at the latest: no reply from the server`, unconfirmed.Unlock().Error())
		time.Sleep(time.Minute)
		synctest.Wait()
		for want, lease := range leases {
			require.EqualError(f, lease.Err(), "signalbox: "+want)
			require.EqualError(f, context.Cause(bound[want]), "signalbox: "+want)
			require.ErrorContains(f, lease.Unlock(), want[len("lock"):][len(want[len("lock"):])-20:])
		}
		require.EqualError(f, term.Err(), `signalbox: election "leads": `+late+", and the leader steps down before its lease ends")
		require.EqualError(f, term.Resign(), `signalbox: resign "leads": `+late+", and the leader steps down before its lease ends")
		link.heal()
	})
}

// A wait for a lock that its own session holds says so, and how the holder enters it again.
func TestAWaitForALockOfItsOwnSessionSaysSo(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(f.Context())
		require.NoError(f, err)
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		_, err = mu.Lock(ctx)
		require.ErrorIs(f, err, signalbox.ErrHeld)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorContains(f, err, "by this session; its holder enters it again by the context of Lease.Enter: context deadline exceeded")
		require.NoError(f, lease.Unlock())
	})
}
