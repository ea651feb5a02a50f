// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// foreign is what may stand at a holder key that is not this kind's: how it is made, and what an
// call of redlock says of it, "" being that the server refuses the type.
var foreign = map[string]struct {
	make []any
	kind string
}{
	"List":         {[]any{"RPUSH", "", "x"}, ""},
	"Zset":         {[]any{"ZADD", "", 1, "x"}, ""},
	"Set":          {[]any{"SADD", "", "x"}, ""},
	"Hash":         {[]any{"HSET", "", "f", "x"}, ""},
	"Stream":       {[]any{"XADD", "", "1-1", "f", "x"}, ""},
	"String":       {[]any{"SET", "", "hello"}, "?"},
	"ShortString":  {[]any{"SET", "", "sb"}, "?"},
	"EmptyString":  {[]any{"SET", "", ""}, "?"},
	"Number":       {[]any{"SET", "", 42}, "?"},
	"OtherLayout":  {[]any{"SET", "", "sb2q" + digits(noon) + ours}, "?"},
	"CutShort":     {[]any{"SET", "", "sb1q" + digits(noon) + we}, "?"},
	"Unmarked":     {[]any{"SET", "", "sb1q" + digits(noon) + theirs}, "?"},
	"TooLong":      {[]any{"SET", "", votedFor(theirs, noon, they) + strings.Repeat("x", 74-len(label))}, "?"},
	"FloorAndMore": {[]any{"SET", "", released(noon) + "x"}, "?"},
	"OtherKind":    {[]any{"SET", "", "sb1l" + digits(noon) + ours}, "l"},
	"ReadWrite":    {[]any{"ZADD", "", -1, "sb1w", noon, theirs}, "w"},
	"OtherKindToo": {[]any{"SET", "", "sb1w" + digits(noon) + theirs + we, "PX", 60_000}, "w"},
}

// P9: what is no lock of this kind is left as it is.
func TestAForeignKeyIsLeftAlone(t *testing.T) {
	t.Parallel()
	calls := map[string]struct {
		script *scripts.Script
		args   func(f *fixture) []any
	}{
		"renew":    {scripts.HolderRenew, func(*fixture) []any { return []any{holdOf("z"), lease} }},
		"describe": {scripts.HolderDescribe, func(*fixture) []any { return nil }},
		"force":    {scripts.HolderForce, func(f *fixture) []any { return []any{holdOf("z"), "PUBLISH", f.channel, f.notified(), keepMS} }},
		"hello":    {scripts.SessionHello, func(*fixture) []any { return nil }},
	}
	for what := range foreign {
		for verb, call := range calls {
			t.Run(what+"/"+verb, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.puts(what, f.key)
				unchanged, listener := f.untouched(), f.listen()
				_, err := f.try(call.script, call.args(f)...)
				unchanged()
				require.Empty(t, listener.received())
				if err != nil {
					require.ErrorContains(t, err, "WRONGTYPE")
				}
			})
		}
	}
}

// lock is a kind of lock that has keys beside its holder key, which is the first.
type lock interface {
	keys() []string
	unchanged() func() // checks that nothing was written since
	at() *fixture
}

func (f *fixture) at() *fixture { return f }

// puts makes what is foreign at a key.
func (f *fixture) puts(what, key string) {
	f.Helper()
	made := foreign[what].make
	f.server.MustDo(f, append([]any{made[0], key}, made[2:]...)...)
	if f.isTimed && made[len(made)-1] == 60_000 {
		f.expires(key, time.Minute)
	}
}

// requireHolderLeftAlone makes every call while something foreign stands at the holder key, as what kind the scripts
// report it, and check checks the replies that are no errors.
func requireHolderLeftAlone[L lock](
	t *testing.T, fresh func(tb testing.TB) L, calls func(l L) map[string]func() (any, error), kinds map[string]string,
	check func(t *testing.T, verb, kind string, reply any),
) {
	t.Helper()
	for what, made := range foreign {
		kind, ok := kinds[what]
		if !ok {
			kind = made.kind
		} else if kind == "own" {
			continue
		}
		for verb := range calls(fresh(t)) {
			t.Run(what+"/"+verb, func(t *testing.T) {
				t.Parallel()
				l := fresh(t)
				l.at().puts(what, l.keys()[0])
				unchanged := l.unchanged()
				reply, err := calls(l)[verb]()
				unchanged()
				if err != nil {
					require.ErrorContains(t, err, "WRONGTYPE")
					require.Empty(t, kind)
					return
				}
				check(t, verb, kind, reply)
			})
		}
	}
}

// requireQueueLeftAlone makes every call in every state, while something foreign stands at a key beside the holder key. A call
// that is refused changes nothing, and none changes that key. At least so many must be refused.
func requireQueueLeftAlone[L lock](
	t *testing.T, fresh func(tb testing.TB) L, calls func(l L) map[string]func() (any, error), states map[string]func(l L), least int32,
) {
	t.Helper()
	var refused atomic.Int32
	cells, every := 0, redistest.Rounds(5, 1)
	t.Run("Calls", func(t *testing.T) {
		verbs := slices.Collect(maps.Keys(calls(fresh(t))))
		for state, prepare := range states {
			for which := range fresh(t).keys()[1:] {
				for _, what := range []string{"List", "String", "Stream"} {
					for _, verb := range verbs {
						if cells++; cells%every != 0 {
							continue
						}
						t.Run(fmt.Sprint(state, "/", which, "/", what, "/", verb), func(t *testing.T) {
							t.Parallel()
							l := fresh(t)
							prepare(l)
							f, key := l.at(), l.keys()[1+which]
							f.server.MustDo(t, "DEL", key)
							f.puts(what, key)
							ends, dump := redistest.EndOf(t, f.server, key), f.server.MustDo(t, "DUMP", key)
							unchanged := l.unchanged()
							if _, err := calls(l)[verb](); err != nil {
								require.ErrorContains(t, err, "WRONGTYPE")
								refused.Add(1)
								unchanged()
							}
							require.Equal(t, dump, f.server.MustDo(t, "DUMP", key))
							require.Equal(t, ends, redistest.EndOf(t, f.server, key))
						})
					}
				}
			}
		}
	})
	require.Greater(t, refused.Load(), least/int32(2*every-1))
}
