// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// all returns the entries of Names by name and kind, and fails the test on an error.
func all(t *testing.T, s *signalbox.Session, prefix string) []inspect.Entry {
	t.Helper()
	entries, errs := listed(t, s, prefix)
	require.Empty(t, errs)
	return entries
}

// listed returns the entries of Names by name and kind, and the errors.
func listed(t *testing.T, s *signalbox.Session, prefix string) (entries []inspect.Entry, failures []error) {
	t.Helper()
	for entry, err := range inspect.Names(locktest.Context(t), s, prefix) {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b inspect.Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return entries, failures
}

// only returns the single entry of a name, and checks that Names yields the same one.
func only(t *testing.T, s *signalbox.Session, name string) inspect.Entry {
	t.Helper()
	entries, err := inspect.Name(locktest.Context(t), s, name)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	among := all(t, s, name)
	require.Len(t, among, 1)
	for _, e := range []*inspect.Entry{&entries[0], &among[0]} { // renewed in between
		for i := range e.Holders {
			require.NotZero(t, e.Holders[i].Until)
			e.Holders[i].Until = e.Holders[0].Until.Truncate(0)
		}
	}
	require.Equal(t, entries[0].Kind, among[0].Kind)
	require.Equal(t, entries[0].HolderCount, among[0].HolderCount)
	require.Equal(t, entries[0].Token, among[0].Token)
	return entries[0]
}

// kinds returns name and kind of each entry.
func kinds(entries []inspect.Entry) (texts []string) {
	for _, e := range entries {
		texts = append(texts, e.Name+" "+e.Kind)
	}
	return texts
}

// waiting calls on another goroutine, and returns once the server has tickets of the name.
func waiting[T any](t *testing.T, s *signalbox.Session, name string, tickets int, call func(context.Context) (T, error)) <-chan locktest.Result[T] {
	t.Helper()
	returned := locktest.LaterWith(locktest.Context(t), call)
	redistest.Await(t, "a ticket", func() bool {
		entries, err := inspect.Name(t.Context(), s, name)
		return err == nil && len(entries) == 1 && entries[0].WaiterCount >= tickets
	})
	return returned
}

// unlocked ends a lease that a call returned on another goroutine.
func unlocked(t *testing.T, returned <-chan locktest.Result[signalbox.Lease]) {
	t.Helper()
	require.NoError(t, locktest.IgnoreUnconfirmed(locktest.MustHave(t, returned).Unlock()))
}

// serverURL is where the examples find a server.
var serverURL string

func TestMain(m *testing.M) {
	// A client of a cluster asks for its nodes up to a second after one was lost.
	redistest.VerifyTestMain(redistest.WithParallelism(6, redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() })))
}
