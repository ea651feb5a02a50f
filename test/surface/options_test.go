// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/shards"
)

// checker is a lock of any kind.
type checker interface{ Check() error }

// kinds make a lock of each kind, over one session, or over three with it.
var kinds = map[string]func(s []*signalbox.Session, options ...signalbox.LockOption) checker{
	"reentrant": func(s []*signalbox.Session, o ...signalbox.LockOption) checker { return reentrant.New(s[0], "a", o...) },
	"fair":      func(s []*signalbox.Session, o ...signalbox.LockOption) checker { return fair.New(s[0], "a", o...) },
	"rwlock":    func(s []*signalbox.Session, o ...signalbox.LockOption) checker { return rwlock.New(s[0], "a", o...) },
	"semaphore": func(s []*signalbox.Session, o ...signalbox.LockOption) checker {
		return semaphore.New(s[0], "a", 1, o...)
	},
	"countdown": func(s []*signalbox.Session, o ...signalbox.LockOption) checker { return countdown.New(s[0], "a", o...) },
	"election":  func(s []*signalbox.Session, o ...signalbox.LockOption) checker { return election.New(s[0], "a", o...) },
	"shards": func(s []*signalbox.Session, o ...signalbox.LockOption) checker {
		return shards.New(s[0], "a", shards.Count(1), o...)
	},
	"once": func(s []*signalbox.Session, o ...signalbox.LockOption) checker { return once.New(s[0], "a", o...) },
	"redlock": func(s []*signalbox.Session, o ...signalbox.LockOption) checker {
		return redlock.New(s, "a", o...)
	},
}

// option is a row of the table: an option, and the kinds that have it.
type option struct {
	options []signalbox.LockOption // the option, and those that it needs beside it
	kinds   []string
}

var (
	single  = []string{"election", "fair", "once", "reentrant", "rwlock", "semaphore"}
	leased  = []string{"fair", "once", "redlock", "reentrant", "rwlock", "semaphore"}
	renewed = append([]string{"election"}, leased...)
	all     = []string{"countdown", "election", "fair", "once", "redlock", "reentrant", "rwlock", "semaphore", "shards"}
	javas   = []string{"countdown", "fair", "reentrant", "rwlock", "semaphore"}
)

// table is every option of locks.
var table = map[string]option{
	"signalbox.WithRenewedLease":   {[]signalbox.LockOption{signalbox.WithRenewedLease(10 * time.Second)}, append([]string{"shards"}, renewed...)},
	"signalbox.WithFixedLease":     {[]signalbox.LockOption{signalbox.WithFixedLease(time.Second)}, leased},
	"signalbox.WithMaxHold":        {[]signalbox.LockOption{signalbox.WithMaxHold(time.Second)}, leased},
	"signalbox.WithReplicas":       {[]signalbox.LockOption{signalbox.WithReplicas(1, time.Second)}, single},
	"signalbox.WithTokenFloor":     {[]signalbox.LockOption{signalbox.WithTokenFloor(time.Second)}, renewed},
	"signalbox.WithMaxWaiters":     {[]signalbox.LockOption{signalbox.WithMaxWaiters(1)}, []string{"fair", "reentrant", "rwlock", "semaphore"}},
	"signalbox.WithClass":          {[]signalbox.LockOption{signalbox.WithClass("orders")}, all},
	"signalbox.WithFirstLease":     {[]signalbox.LockOption{signalbox.WithFirstLease(time.Second)}, renewed},
	"signalbox.WithKeepWarm":       {[]signalbox.LockOption{signalbox.WithKeepWarm(time.Second)}, []string{"reentrant"}},
	"signalbox.WithWanted":         {[]signalbox.LockOption{signalbox.WithWanted()}, []string{"fair", "reentrant"}},
	"redisson.Layout":              {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}, javas},
	"setnx.Layout":                 {[]signalbox.LockOption{signalbox.WithLayout(setnx.Layout())}, []string{"reentrant"}},
	"signalbox.WithLayout(Native)": {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout()), signalbox.WithLayout(signalbox.Native())}, all},
	"semaphore.ExactCapacity":      {[]signalbox.LockOption{semaphore.ExactCapacity()}, []string{"semaphore"}},
	"semaphore.Plain":              {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout()), semaphore.Plain()}, []string{"semaphore"}},
	"countdown.Keep":               {[]signalbox.LockOption{countdown.Keep(time.Hour)}, []string{"countdown"}},
	"election.StepDown":            {[]signalbox.LockOption{election.StepDown(time.Second)}, []string{"election"}},
	"election.Value":               {[]signalbox.LockOption{election.Value("x")}, []string{"election"}},
	"once.Keep":                    {[]signalbox.LockOption{once.Keep(time.Hour)}, []string{"once"}},
	"once.Linger":                  {[]signalbox.LockOption{once.Linger(time.Minute)}, []string{"once"}},
	"shards.Weight":                {[]signalbox.LockOption{shards.Weight(2)}, []string{"shards"}},
	"shards.Limit":                 {[]signalbox.LockOption{shards.Limit(2)}, []string{"shards"}},
	"shards.Value":                 {[]signalbox.LockOption{shards.Value("x")}, []string{"shards"}},
	"shards.RebalanceDelay":        {[]signalbox.LockOption{shards.RebalanceDelay(time.Second)}, []string{"shards"}},
	"shards.Moves":                 {[]signalbox.LockOption{shards.Moves(2)}, []string{"shards"}},
	"shards.DrainLimit":            {[]signalbox.LockOption{shards.DrainLimit(time.Minute)}, []string{"shards"}},
	"shards.Retry":                 {[]signalbox.LockOption{shards.Retry(time.Second, time.Minute)}, []string{"shards"}},
	"redlock.Fenced":               {[]signalbox.LockOption{redlock.Fenced()}, []string{"redlock"}},
	"redlock.GreatestLease":        {[]signalbox.LockOption{redlock.GreatestLease(time.Hour)}, []string{"redlock"}},
}

// layoutNames is what errors call the layouts of others.
var layoutNames = map[string]string{"redisson.Layout": "Redisson", "setnx.Layout": "SET NX"}

// TestEveryOptionHasARow reads the options from the source.
func TestEveryOptionHasARow(t *testing.T) {
	t.Parallel()
	var found []string
	for _, file := range public(t) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			for _, result := range f.Type.Results.List {
				switch types.ExprString(result.Type) {
				case "LockOption", "signalbox.LockOption":
					if f.Name.Name != "WithLayout" { // its layouts have a row each
						found = append(found, file.Name.Name+"."+f.Name.Name)
					}
				case "Layout":
					found = append(found, file.Name.Name+".WithLayout("+f.Name.Name+")")
				case "signalbox.Layout":
					found = append(found, file.Name.Name+".Layout")
				}
			}
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(table)), found)
}

// Each option works with a kind, or is the error of every call.
func TestEveryOptionOfEveryKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sessions := []*signalbox.Session{newSession(t, server), newSession(t, server), newSession(t, server)}
	for kind, makes := range kinds {
		require.NoError(t, makes(sessions).Check(), kind)
		for name, row := range table {
			lock := makes(sessions, row.options...)
			if slices.Contains(row.kinds, kind) {
				require.NoError(t, lock.Check(), "%s of %s", name, kind)
				continue
			}
			require.ErrorIs(t, lock.Check(), signalbox.ErrBadOption, "%s of %s", name, kind)
			if name != "semaphore.Plain" || slices.Contains(javas, kind) { // else the first of the two is refused
				_, option, _ := strings.Cut(name, ".")
				if of, is := layoutNames[name]; is {
					option = "WithLayout(" + of + ")"
				}
				require.ErrorContains(t, lock.Check(), option+" is not an option of "+kind+": it has ")
			}
			for _, c := range invoke(t.Context(), lock) {
				require.Nil(t, c.panics, c.method)
				if c.fails {
					require.ErrorIs(t, c.err, signalbox.ErrBadOption, "%s: %s", name, c.method)
				}
			}
		}
	}
}

// A default of the session that a kind does not have is no error, and does nothing; but a layout is one.
func TestADefaultOfAnotherKindIsLeftOut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, row := range table {
		var sessions []*signalbox.Session
		for range 3 {
			sessions = append(sessions, newSession(t, server, signalbox.WithDefaults(row.options...)))
		}
		for kind, makes := range kinds {
			isLayout := layoutNames[name] != "" || name == "semaphore.Plain"
			has := row.kinds
			if name == "semaphore.Plain" {
				has = javas
			}
			if isLayout && !slices.Contains(has, kind) {
				require.ErrorIs(t, makes(sessions).Check(), signalbox.ErrBadOption, "%s of %s", name, kind)
				continue
			}
			require.NoError(t, makes(sessions).Check(), "%s of %s", name, kind)
		}
	}
	long := newSession(t, server, signalbox.WithDefaults(signalbox.WithReplicas(1, 40*time.Second)))
	require.ErrorIs(t, reentrant.New(long, "a").Check(), signalbox.ErrBadOption, "longer than the lease")
	require.NoError(t, countdown.New(long, "a").Check(), "which a latch has none of")
}

// Redisson's keys have no place for what these options set. A default of the session is left out.
func TestOptionsThatRedissonsKeysCannotStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	floor, keep := signalbox.WithTokenFloor(time.Hour), countdown.Keep(time.Hour)
	s := newSession(t, server)
	byDefault := newSession(t, server, signalbox.WithDefaults(floor, keep, signalbox.WithLayout(redisson.Layout())))
	for _, kind := range javas {
		option, name := floor, "WithTokenFloor"
		if kind == "countdown" {
			option, name = keep, "Keep"
		}
		err := kinds[kind]([]*signalbox.Session{s}, signalbox.WithLayout(redisson.Layout()), option).Check()
		require.ErrorIs(t, err, signalbox.ErrBadOption, kind)
		require.ErrorContains(t, err, name)
		require.NoError(t, kinds[kind]([]*signalbox.Session{byDefault}).Check(), kind)
	}
}
