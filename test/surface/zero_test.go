// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"context"
	"errors"
	"go/ast"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/inspect/inspecthttp"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// empty is every exported type with nothing in it: its zero value, nil, and what its constructor
// makes of nothing. A type whose methods are those of its pointer stands with the pointer.
func empty() map[string][]any {
	var none *signalbox.Session
	var noLatch *countdown.Latch
	var noSemaphore *semaphore.Semaphore
	return map[string][]any{
		"signalbox.Session":          {none, new(signalbox.Session), signalbox.NewSession(nil), signalbox.NewSession(nil, nil)},
		"signalbox.SessionOption":    {signalbox.SessionOption(nil)},
		"signalbox.LockOption":       {signalbox.LockOption(nil)},
		"redisson.Option":            nil, // an interface; its options are refused by the locks
		"signalbox.Lease":            {signalbox.Lease{}, new(signalbox.Lease)},
		"signalbox.Locker":           {(*signalbox.Locker)(nil), new(signalbox.Locker), reentrant.New(nil, "").Locker(nil)}, //nolint:staticcheck // nil is tested
		"signalbox.Holder":           {signalbox.Holder{}},
		"signalbox.Waiter":           {signalbox.Waiter{}},
		"signalbox.Observer":         {signalbox.Observer{}},
		"signalbox.Event":            {signalbox.Event{}},
		"signalbox.Place":            {signalbox.Place{}},
		"signalbox.OpError":          {(*signalbox.OpError)(nil), new(signalbox.OpError)},
		"signalbox.UnconfirmedError": {(*signalbox.UnconfirmedError)(nil), new(signalbox.UnconfirmedError)},
		"countdown.Latch":            {noLatch, new(countdown.Latch), countdown.New(nil, "")},
		"countdown.Round":            {countdown.Round{}, noLatch.RoundOf(1), new(countdown.Latch).RoundOf(1), countdown.New(none, "a").RoundOf(1)},
		"election.Election":          {(*election.Election)(nil), new(election.Election), election.New(nil, ""), election.New(none, "a", nil)},
		"election.Term":              {election.Term{}, new(election.Term)},
		"election.Leader":            {election.Leader{}},
		"election.Callbacks":         {election.Callbacks{}},
		"fair.Lock":                  {(*fair.Lock)(nil), new(fair.Lock), fair.New(nil, "")},
		"inspect.Entry":              {inspect.Entry{}},
		"signalbox.Layout":           {signalbox.Layout{}},
		"inspect.Holder":             {inspect.Holder{}},
		"inspect.Waiter":             {inspect.Waiter{}},
		"inspect.NodeError":          {(*inspect.NodeError)(nil), new(inspect.NodeError)},
		"inspect.List":               {(*inspect.List)(nil), new(inspect.List), inspect.NewList(none, "", 0)},
		"inspect.Snapshot":           {inspect.Snapshot{}},
		"inspecthttp.Handler":        nil, // its own test has them
		"inspecthttp.Options":        {inspecthttp.Options{}},
		"inspect.NamesOption":        {inspect.NamesOption(nil)},
		"multilock.Lock": {
			(*multilock.Lock)(nil), new(multilock.Lock), multilock.New(), multilock.New(nil, nil), multilock.New((*reentrant.Lock)(nil)),
			multilock.New((*fair.Lock)(nil), (*rwlock.Lock)(nil), rwlock.Reader{}, semaphore.Permits{}), multilock.New(new(reentrant.Lock)),
		},
		"multilock.Member":    nil,
		"once.Once":           {(*once.Once)(nil), new(once.Once), once.New(nil, ""), once.New(none, "a", nil)},
		"once.Func":           {once.Func(nil)},
		"redlock.Lock":        {(*redlock.Lock)(nil), new(redlock.Lock), redlock.New(nil, ""), redlock.New(make([]*signalbox.Session, 3), "a", nil)},
		"reentrant.Lock":      {(*reentrant.Lock)(nil), new(reentrant.Lock), reentrant.New(nil, ""), reentrant.New(none, "a", nil)},
		"rwlock.Lock":         {(*rwlock.Lock)(nil), new(rwlock.Lock), rwlock.New(nil, "")},
		"rwlock.Reader":       {rwlock.Reader{}, (*rwlock.Lock)(nil).Reader(), new(rwlock.Lock).Reader()},
		"semaphore.Semaphore": {noSemaphore, new(semaphore.Semaphore), semaphore.New(nil, "", 0)},
		"semaphore.Permits":   {semaphore.Permits{}, noSemaphore.Permits(1), new(semaphore.Semaphore).Permits(0)},
		"semaphore.Weighted": {
			(*semaphore.Weighted)(nil), new(semaphore.Weighted), noSemaphore.Weighted(context.Background()),
			new(semaphore.Semaphore).Weighted(nil), //nolint:staticcheck // nil is tested
		},
		"shards.Group": {
			(*shards.Group)(nil), new(shards.Group), shards.New(nil, "", shards.Set{}), shards.New(none, "a", shards.Count(1), nil),
		},
		"shards.Member":        {(*shards.Member)(nil), new(shards.Member)},
		"shards.Shard":         {shards.Shard{}, new(shards.Shard)},
		"shards.View":          {(*shards.View)(nil), new(shards.View)},
		"shards.MismatchError": {(*shards.MismatchError)(nil), new(shards.MismatchError)},
		"shards.Set":           {shards.Set{}},
		"shards.Change":        {shards.Change{}},
		"shards.ChangeKind":    {shards.ChangeKind(0)},
		"shards.ShardInfo":     {shards.ShardInfo{}},
		"shards.MemberInfo":    {shards.MemberInfo{}},
		"shards.State":         {shards.State(0)},
		"semaphore.Holder":     {semaphore.Holder{}},
		"scripts.Script":       {(*scripts.Script)(nil), new(scripts.Script)},
	}
}

// TestEveryTypeIsListed reads the exported types from the source.
func TestEveryTypeIsListed(t *testing.T) {
	t.Parallel()
	var found []string
	for _, file := range public(t) {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				if name := spec.(*ast.TypeSpec).Name; name.IsExported() { //nolint:forcetypeassert // of a declaration of types
					found = append(found, file.Name.Name+"."+name.Name)
				}
			}
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(empty())), found)
}

// mayPanic are the methods that panic instead of returning an error, as their docs say.
var mayPanic = []string{"Locker.Lock", "Locker.Unlock", "Weighted.Release"}

// A value with nothing in it returns errors, and panics nowhere.
func TestNothingPanicsThatIsEmpty(t *testing.T) {
	t.Parallel()
	for name, values := range empty() {
		for i, v := range values {
			require.Equal(t, name, strings.TrimPrefix(reflect.TypeOf(v).String(), "*"))
			for _, ctx := range []context.Context{nil, t.Context()} {
				for _, c := range invoke(ctx, v) {
					requireNoPanic(t, c)
					if c.takes && c.fails && !strings.HasSuffix(c.method, "Session.Close") { // there is nothing to close
						require.Error(t, c.err, "%s of value %d", c.method, i)
					}
				}
			}
		}
	}
}

// requireNoPanic lets those calls panic, with an error that says whose it is, that have no other
// way to fail.
func requireNoPanic(t *testing.T, c call) {
	t.Helper()
	if c.panics != nil && slices.ContainsFunc(mayPanic, func(m string) bool { return strings.HasSuffix(c.method, m) }) {
		err, _ := c.panics.(error)
		require.ErrorContains(t, err, "signalbox: ", c.method)
		return
	}
	require.Nil(t, c.panics, c.method)
}

// Every call returns ErrBadOption for a context that is nil, and does nothing.
func TestANilContextIsABadOption(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sessions := []*signalbox.Session{newSession(t, server), newSession(t, server), newSession(t, server)}
	s := sessions[0]
	lease, err := reentrant.New(s, "held").Lock(t.Context())
	require.NoError(t, err)
	term, err := election.New(s, "led").Campaign(t.Context())
	require.NoError(t, err)
	for _, v := range []any{
		term, election.New(s, "a"), s, lease, countdown.New(s, "a"), countdown.New(s, "a").RoundOf(1), fair.New(s, "a"), reentrant.New(s, "a"), rwlock.New(s, "a"),
		rwlock.New(s, "a").Reader(), semaphore.New(s, "a", 1), semaphore.New(s, "a", 1).Permits(1), redlock.New(sessions, "a"),
		multilock.New(reentrant.New(s, "a"), fair.New(s, "b")), semaphore.New(s, "a", 1).Weighted(t.Context()),
	} {
		for _, c := range invoke(nil, v) { //nolint:staticcheck // the nil context is what is tested
			requireNoPanic(t, c)
			if c.takes && c.fails {
				require.ErrorIs(t, c.err, signalbox.ErrBadOption, c.method)
				require.ErrorContains(t, c.err, "nil", c.method)
			}
		}
	}
	_, err = signalbox.Dial(nil, server.URL()) //nolint:staticcheck // as above
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	_, err = reentrant.New(s, "a").Lock(lease.Bind(nil)) //nolint:staticcheck // as above
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld, "a method without a context has unlocked it")
}

// P9: a bad option, prefix, label or session is the error of every call, and sends nothing.
func TestABadLockIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	with := func(options ...signalbox.SessionOption) func() *signalbox.Session {
		return func() *signalbox.Session { return newSession(t, server, options...) }
	}
	for name, bad := range map[string]struct {
		session func() *signalbox.Session
		want    error
	}{
		"no client": {func() *signalbox.Session { return signalbox.NewSession(nil) }, signalbox.ErrBadOption},
		"closed": {func() *signalbox.Session {
			s := newSession(t, server)
			require.NoError(t, s.Close(t.Context()))
			return s
		}, signalbox.ErrClosed},
		"a bad default": {with(signalbox.WithDefaults(signalbox.WithClass("a\nb"))), signalbox.ErrBadOption},
		"a bad label":   {with(signalbox.WithLabel("a\nb")), signalbox.ErrBadOption},
		"a bad prefix":  {with(signalbox.WithPrefix("{x}")), signalbox.ErrBadOption},
	} {
		sessions := []*signalbox.Session{bad.session(), bad.session(), bad.session()}
		for kind, newLock := range kinds {
			lock := newLock(sessions)
			require.ErrorIs(t, lock.Check(), bad.want, "%s: %s", kind, name)
			require.Empty(t, server.SentBy(func() {
				for _, c := range invoke(t.Context(), lock) {
					if c.takes && c.fails && !errors.Is(c.err, signalbox.ErrBadOption) { // as the arguments are
						require.ErrorIs(t, c.err, bad.want, "%s: %s", c.method, name)
					}
				}
			}))
		}
	}
}

// Do needs a function, and takes no lock without one.
func TestDoWithoutAFunctionIsABadOption(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sessions := []*signalbox.Session{newSession(t, server), newSession(t, server), newSession(t, server)}
	s := sessions[0]
	for name, err := range map[string]error{
		"reentrant": reentrant.New(s, "a").Do(t.Context(), nil),
		"fair":      fair.New(s, "a").Do(t.Context(), nil),
		"write":     rwlock.New(s, "a").Do(t.Context(), nil),
		"read":      rwlock.New(s, "a").RDo(t.Context(), nil),
		"semaphore": semaphore.New(s, "a", 1).Do(t.Context(), 1, nil),
		"redlock":   redlock.New(sessions, "a").Do(t.Context(), nil),
		"multilock": multilock.New(reentrant.New(s, "a")).Do(t.Context(), nil),
	} {
		require.ErrorIs(t, err, signalbox.ErrBadOption, name)
	}
	require.Empty(t, server.Keys("*"))
}
