// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// local are the calls of the library that ask no server.
const local = `
	signalbox.WithCloseGrace redisson.FairLockWaitTimeout signalbox.WithFixedLease
	signalbox.WithMaxHold signalbox.Native redisson.Layout signalbox.WithRenewedLease setnx.Layout signalbox.WithLayout
	signalbox.WithReplicas signalbox.WithDefaults signalbox.WithHashedNames signalbox.WithLabel
	signalbox.WithLazyConnect signalbox.WithLogger signalbox.WithOnClose signalbox.WithPolling signalbox.WithPrefix signalbox.WithSentinelCredentials signalbox.Tune signalbox.ParseURL
	signalbox.NewSession signalbox.Session.ID signalbox.Session.Logger signalbox.Lease.Bind
	signalbox.Lease.Deadline signalbox.Lease.Done signalbox.Lease.Enter signalbox.Lease.Err
	signalbox.Lease.Token signalbox.Locker.OnLost signalbox.OpError.Error
	signalbox.OpError.Unwrap signalbox.UnconfirmedError.Error signalbox.UnconfirmedError.Is
	signalbox.UnconfirmedError.Unwrap signalbox.WithTokenFloor signalbox.WithFirstLease signalbox.WithMaxWaiters
	signalbox.WithKeepWarm signalbox.Session.IdleLocks signalbox.WithWanted signalbox.Lease.Wanted
	signalbox.WithObserver signalbox.WithClass signalbox.Observers
	reentrant.New reentrant.Lock.Check reentrant.Lock.Locker reentrant.Lock.Place
	fair.New fair.Lock.Check fair.Lock.Locker fair.Lock.Place
	rwlock.New rwlock.Lock.Check rwlock.Lock.Locker rwlock.Lock.RLocker rwlock.Lock.Place
	rwlock.Lock.Reader rwlock.Reader.Check rwlock.Reader.Place
	semaphore.New semaphore.ExactCapacity semaphore.Plain semaphore.Semaphore.Check
	semaphore.Semaphore.Permits semaphore.Semaphore.Weighted semaphore.Weighted.OnLost
	semaphore.Permits.Check semaphore.Permits.Place
	countdown.New countdown.Keep countdown.Latch.Check countdown.Latch.RoundOf
	countdown.Round.ID
	election.New election.StepDown election.Value election.Election.Check election.Election.Leading election.Term.Bind
	election.Term.Deadline election.Term.Done election.Term.Err election.Term.Token
	multilock.New multilock.Tokens multilock.Lock.Check multilock.Lock.Locker
	multilock.Lock.Order
	once.New once.Keep once.Linger once.Once.At once.Once.Check
	inspect.NodeError.Error inspect.NodeError.Unwrap
	inspect.FullSpeed inspect.Kinds inspect.Entry.IsHeld inspect.Entry.Summary inspect.Progress inspect.NewList inspect.List.Invalidate
	shards.New shards.Count shards.Names shards.Exact shards.Index shards.Weight shards.Limit shards.Value shards.RebalanceDelay
	shards.Moves shards.DrainLimit shards.Retry shards.Elsewhere shards.Group.Check shards.Member.Changes shards.Member.Done
	shards.Member.Err shards.Member.Own shards.Member.Owned shards.Shard.Bind shards.Shard.Count shards.Shard.Deadline
	shards.Shard.Done shards.Shard.Err shards.Shard.Index shards.Shard.Losses shards.Shard.Name shards.Shard.Release
	shards.Shard.Since shards.Shard.Token shards.View.Names shards.View.Owner shards.View.OwnerOf shards.ChangeKind.String
	shards.State.String shards.MismatchError.Error shards.MismatchError.Unwrap
	redlock.New redlock.Fenced redlock.GreatestLease redlock.Lock.Check redlock.Lock.Locker
`

// elsewhere are the calls whose rows are elsewhere: Dial makes connections of its own, which a test in
// virtual time cannot have, Release is Unlock, a Member is a lock of another kind, and lists run scripts for what their SCAN finds
// alone: the faults here are of scripts.
const elsewhere = `
	signalbox.Dial signalbox.DialWith signalbox.Lease.Release inspect.Names inspect.List.Run inspect.List.Snapshot
	inspecthttp.New inspecthttp.Handler.ServeHTTP inspecthttp.Handler.Snapshot
	multilock.Member.Check multilock.Member.Place multilock.Member.Lock multilock.Member.TryLock
`

// noLibrary are the packages whose calls ask no server, and those of modules of their own.
const noLibrary = "scripts gocron goredis otel signalboxtest memory valkeygo"

// A call that is added to the library needs a row that says how it ends, or that it asks no server.
func TestTheTableHasEveryCallOfTheLibrary(t *testing.T) {
	t.Parallel()
	listed := make(map[string]bool)
	for name := range strings.FieldsSeq(local + elsewhere) {
		listed[name] = true
	}
	for _, c := range calls() {
		name, _, _ := strings.Cut(c.name, " ")
		listed[name] = true
	}
	for _, name := range readAPI(t).calls {
		pkg, _, _ := strings.Cut(name, ".")
		if slices.Contains(strings.Fields(noLibrary), pkg) {
			continue
		}
		if !listed[name] {
			t.Errorf("%s: the table of calls does not say how it ends", name)
		}
		delete(listed, name)
	}
	require.Empty(t, listed, "there are no such calls")
}
