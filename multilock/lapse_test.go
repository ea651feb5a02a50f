// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/multilock"
)

// tardy is a member that, the first time, is taken only when it is not waited for any more.
type tardy struct {
	lock

	once sync.Once
	took signalbox.Lease // of the first time
}

func (l *tardy) Lock(ctx context.Context) (signalbox.Lease, error) {
	var err error
	first := false
	l.once.Do(func() {
		first = true
		<-ctx.Done()
		l.took, err = l.lock.Lock(context.WithoutCancel(ctx))
	})
	if first {
		return l.took, err
	}
	return l.lock.Lock(ctx)
}

// P2: where a member lapses in the instant in which the last one comes, both are taken anew.
func TestAMemberThatLapsesAsTheLastComesIsTakenAgain(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	mine := inOrder([]lock{
		fair.New(s, "a", signalbox.FixedLease(5*shortest)), fair.New(s, "b", signalbox.FixedLease(5*shortest)),
	})
	last := &tardy{lock: mine[1]}
	lease := mustLock(t, multilock.New(mine[0], last))
	require.Greater(t, multilock.Tokens(lease)[1], last.took.Token(), "the lease of a round that had lost a member")
	_ = lease.Unlock() // it lasts half a second, and a machine may stand still for longer
	awaitFree(t, mine, s)
}

// P10: where the right to read many keys at once is missing they are read one by one.
func TestWithoutTheRightToReadManyAtOnceManyAreTakenAllTheSame(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "few", "on", ">secret", "~*", "&*", "+@all", "-mget")
	client := server.Client(t, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.Username, o.Password = "few", "secret"
	})
	s := signalbox.NewSession(client)
	t.Cleanup(func() { _ = s.Close(endedContext()) })
	mine := named(s, "a", "b", "c")
	for range 2 { // what is free, and what was given back
		lease := mustLock(t, all(mine))
		require.Len(t, held(t, mine), 3)
		require.NoError(t, lease.Unlock())
		require.Empty(t, held(t, mine))
	}
}
