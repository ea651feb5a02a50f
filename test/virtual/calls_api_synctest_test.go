// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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
	signalbox.WithLogger signalbox.WithOnClose signalbox.WithPolling signalbox.WithPrefix signalbox.WithSentinelCredentials signalbox.Tune signalbox.ParseURL
	signalbox.NewSession signalbox.Session.ID signalbox.Session.Logger signalbox.Lease.Bind
	signalbox.Lease.Deadline signalbox.Lease.Done signalbox.Lease.Enter signalbox.Lease.Err
	signalbox.Lease.Token signalbox.Locker.OnLost signalbox.OpError.Error
	signalbox.OpError.Unwrap signalbox.UnconfirmedError.Error signalbox.UnconfirmedError.Is
	signalbox.UnconfirmedError.Unwrap signalbox.WithTokenFloor signalbox.WithFirstLease signalbox.WithMaxWaiters
	signalbox.WithKeepWarm signalbox.Session.IdleLocks
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
	inspect.FullSpeed inspect.Progress inspect.NewList inspect.List.Expire
	shards.New shards.Count shards.Names shards.Exact shards.Index shards.Weight shards.Limit shards.Value shards.RebalanceDelay
	shards.Moves shards.DrainLimit shards.Retry shards.Elsewhere shards.Group.Check shards.Member.Changes shards.Member.Done
	shards.Member.Err shards.Member.Own shards.Member.Owned shards.Shard.Bind shards.Shard.Count shards.Shard.Deadline
	shards.Shard.Done shards.Shard.Err shards.Shard.Index shards.Shard.Losses shards.Shard.Name shards.Shard.Release
	shards.Shard.Since shards.Shard.Token shards.View.Names shards.View.Owner shards.View.OwnerOf shards.ChangeKind.String
	shards.State.String shards.MismatchError.Error shards.MismatchError.Unwrap
	redlock.New redlock.Fenced redlock.GreatestLease redlock.Lock.Check redlock.Lock.Locker
`

// elsewhere are the calls whose rows are elsewhere: Dial makes connections of its own, which a test in
// virtual time cannot have, Release is Unlock, and lists run scripts for what their SCAN finds alone: the faults here are of
// scripts.
const elsewhere = "signalbox.Dial signalbox.DialWith signalbox.Lease.Release inspect.Names inspect.List.Run inspect.List.Snapshot"

// noLibrary are the folders that no program imports; the scripts are data. Modules of their own are left out, too.
const noLibrary = "internal interop scripts docs"

// exported returns the exported functions and methods of a package, as "package.Type.Method".
func exported(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, isFunc := decl.(*ast.FuncDecl)
			if !isFunc || !f.Name.IsExported() {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := f.Recv.List[0].Type
				if pointer, isPointer := of.(*ast.StarExpr); isPointer {
					of = pointer.X
				}
				receiver, isNamed := of.(*ast.Ident)
				require.True(t, isNamed, "%s: %s", path, name)
				if !receiver.IsExported() {
					continue
				}
				name = receiver.Name + "." + name
			}
			all = append(all, file.Name.Name+"."+name)
		}
	}
	return all
}

// isModule reports whether a folder is a module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// A call that is added to the library needs a row that says how it ends, or that it asks no server.
func TestTheTableHasEveryCallOfTheLibrary(t *testing.T) {
	t.Parallel()
	const root = "../.."
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	dirs := []string{root}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if e.IsDir() && !slices.Contains(strings.Fields(noLibrary), e.Name()) && !isModule(dir) {
			dirs = append(dirs, dir)
		}
	}
	listed := make(map[string]bool)
	for name := range strings.FieldsSeq(local + elsewhere) {
		listed[name] = true
	}
	for _, c := range calls() {
		name, _, _ := strings.Cut(c.name, " ")
		listed[name] = true
	}
	for _, dir := range dirs {
		for _, name := range exported(t, dir) {
			if !listed[name] {
				t.Errorf("%s: the table of calls does not say how it ends", name)
			}
			delete(listed, name)
		}
	}
	require.Empty(t, listed, "there are no such calls")
}
