// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// errFull is a refusal that passes.
var errFull = errors.New("out of memory")

// fakeAcquirer returns one error after the other, and then leases that hold nothing.
type fakeAcquirer struct {
	refusals []error
	calls    []context.Context
}

func (f *fakeAcquirer) acquire(ctx context.Context) (hold.Lease, error) {
	f.calls = append(f.calls, ctx)
	if len(f.calls) <= len(f.refusals) {
		return hold.Lease{}, f.refusals[len(f.calls)-1]
	}
	return hold.Lease{}, nil
}

// panicOf returns the error that a function panics with, nil if it does not panic.
func panicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}

// sentinels says of every sentinel whether another try may succeed.
func sentinels() map[string]struct {
	err    error
	passes bool
} {
	type sentinel = struct {
		err    error
		passes bool
	}
	return map[string]sentinel{
		"ErrHeld":          {errs.ErrHeld, true},
		"ErrLost":          {errs.ErrLost, true},
		"ErrRefused":       {errs.ErrRefused, true},
		"ErrNotReplicated": {errs.ErrNotReplicated, true},
		"ErrUnconfirmed":   {errs.ErrUnconfirmed, true},
		"ErrNoReply":       {errs.ErrNoReply, true},
		"ErrBusy":          {errs.ErrBusy, true},
		"ErrClosed":        {errs.ErrClosed, false},
		"ErrBadName":       {errs.ErrBadName, false},
		"ErrBadOption":     {errs.ErrBadOption, false},
		"ErrWrongKind":     {errs.ErrWrongKind, false},
		"ErrDenied":        {errs.ErrDenied, false},
		"ErrOldServer":     {errs.ErrOldServer, false},
		"ErrCapacity":      {errs.ErrCapacity, false},
		"ErrUpgrade":       {errs.ErrUpgrade, false},
		"ErrReleased":      {errs.ErrReleased, false},
		"ErrMaxHold":       {errs.ErrMaxHold, false},
		"ErrNotHeld":       {errs.ErrNotHeld, false},
		"ErrRunning":       {errs.ErrRunning, false},
		"ErrNoRound":       {errs.ErrNoRound, false},
		"ErrRoundOver":     {errs.ErrRoundOver, false},
		"ErrReset":         {errs.ErrReset, false},
		"ErrRoundLost":     {errs.ErrRoundLost, false},
		"ErrStale":         {errs.ErrStale, false},
		"ErrTooLarge":      {errs.ErrTooLarge, false},
		"ErrUnsupported":   {errs.ErrUnsupported, false},
	}
}

// The table above has every sentinel that there is.
func TestEverySentinelIsJudged(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../errs/errs.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	table := sentinels()
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is {
			for i, value := range spec.Values {
				if call, is := value.(*ast.CallExpr); is && isNewError(call) { // others are a sentinel with its reason
					require.Contains(t, table, spec.Names[i].Name)
					found++
				}
			}
		}
		return true
	})
	require.Equal(t, len(table), found)
}

// isNewError reports whether a call is one of errors.New.
func isNewError(call *ast.CallExpr) bool {
	function, is := call.Fun.(*ast.SelectorExpr)
	return is && function.Sel.Name == "New"
}

// P10: what waiting cannot mend is a panic with the typed error, and leaves the Locker free.
func TestLockerPanicsOnPermanentErrors(t *testing.T) {
	t.Parallel()
	refusals := []error{
		fmt.Errorf("%w: %w", errs.ErrLost, errs.ErrClosed), // of a session that closes
		redistest.Result(redistest.Refusal("CROSSSLOT Keys in request don't hash to the same slot")).Error(),
	}
	for _, s := range sentinels() {
		if !s.passes {
			refusals = append(refusals, s.err)
		}
	}
	for _, refusal := range refusals {
		f := &fakeAcquirer{refusals: []error{fmt.Errorf("a few words: %w", refusal)}}
		l := hold.NewSyncLocker(t.Context(), func(error) {}, f.acquire)
		require.ErrorIs(t, panicOf(l.Lock), refusal)
		require.ErrorIs(t, panicOf(l.Unlock), errs.ErrNotHeld)
		require.NoError(t, panicOf(l.Lock))
		require.NoError(t, panicOf(l.Unlock))
		require.ErrorIs(t, panicOf(l.Unlock), errs.ErrNotHeld)
	}
}

func TestLockerPanicsIfItsContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fakeAcquirer{refusals: []error{errFull, errFull}}
	require.ErrorIs(t, panicOf(hold.NewSyncLocker(ctx, func(error) {}, f.acquire).Lock), errFull)
	require.Len(t, f.calls, 1)
	f = &fakeAcquirer{refusals: []error{errFull}}
	require.ErrorIs(t, panicOf(hold.NewSyncLocker(nil, func(error) {}, f.acquire).Lock), errFull) //nolint:staticcheck // the nil context is what is tested
}
