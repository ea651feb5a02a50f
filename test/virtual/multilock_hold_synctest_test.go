// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
)

// P2: the first member is renewed while the last one is waited for, however long that takes. One that is not renewed and
// ends meanwhile is no part of a success: it is acquired again.
func TestMultilock_WaitForTheLast_KeepsOrRenewsTheFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option signalbox.LockOption
		kept   bool
	}{
		"Renewed": {signalbox.WithRenewedLease(5 * time.Second), true}, "Fixed": {signalbox.WithFixedLease(5 * time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				s, _, end := f.session(f.T)
				defer end()
				other, _, endOther := f.session(f.T)
				defer endOther()
				both := multilock.New(fair.New(s, "a", c.option), fair.New(s, "b", c.option))
				order := both.Order()
				theirs := locktest.Must(f, fair.New(other, order[1]).Lock)
				waiting := locktest.LaterWith(f.Context(), both.Lock)
				time.Sleep(time.Second)
				first := locktest.Must(f, fair.New(other, order[0]).Holder)
				time.Sleep(time.Minute)
				require.NoError(t, theirs.Unlock())
				got := <-waiting
				require.NoError(t, got.Err)
				require.NoError(t, got.Value.Err())
				for i, token := range multilock.Tokens(got.Value) {
					if c.kept && []string{"a", "b"}[i] == order[0] {
						require.Equal(t, first.Token, token, "it was lost in between")
					} else {
						require.Greater(t, token, first.Token)
					}
				}
				require.NoError(t, got.Value.Unlock())
			})
		})
	}
}

// tardyMember is a member that, the first time, is acquired only when it is not waited for any more.
type tardyMember struct {
	multilock.Member

	once sync.Once
	took signalbox.Lease // the lease of the first time
}

// Lock implements multilock.Member.
func (tm *tardyMember) Lock(ctx context.Context) (signalbox.Lease, error) {
	var err error
	first := false
	tm.once.Do(func() {
		first = true
		<-ctx.Done()
		tm.took, err = tm.Member.Lock(context.WithoutCancel(ctx))
	})
	if first {
		return tm.took, err
	}
	return tm.Member.Lock(ctx)
}

// P2: if a member ends in the instant in which the last one comes, both are acquired anew.
func TestMultilock_MemberEndsAsTheLastComes_AllAreAcquiredAnew(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, end := f.session(f.T)
		defer end()
		short := signalbox.WithFixedLease(time.Second)
		byName := map[string]multilock.Member{"a": fair.New(s, "a", short), "b": fair.New(s, "b", short)}
		order := multilock.New(byName["a"], byName["b"]).Order()
		last := &tardyMember{Member: byName[order[1]]}
		lease := locktest.Must(f, multilock.New(byName[order[0]], last).Lock)
		require.NoError(t, lease.Err())
		require.Greater(t, multilock.Tokens(lease)[1], last.took.Token(), "the lease of a round that had lost a member")
		require.NoError(t, lease.Unlock())
	})
}
