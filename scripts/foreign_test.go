// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// foreign is what may stand at a holder key that is not this kind's: how it is made, and what an
// acquire says of it, "" being that the server refuses the type.
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
	"OtherLayout":  {[]any{"SET", "", "sb2r" + digits(noon) + ours}, "?"},
	"CutShort":     {[]any{"SET", "", "sb1r" + digits(noon) + we}, "?"},
	"Unmarked":     {[]any{"SET", "", "sb1r" + digits(noon) + theirs}, "?"},
	"TooLong":      {[]any{"SET", "", heldBy(theirs, noon, they) + strings.Repeat("x", 65-len(label))}, "?"},
	"FloorAndMore": {[]any{"SET", "", released(noon) + "x"}, "?"},
	"OtherKind":    {[]any{"SET", "", "sb1f" + digits(noon) + ours}, "f"},
	"ReadWrite":    {[]any{"ZADD", "", -1, "sb1w", noon, theirs}, "w"},
	"OtherKindToo": {[]any{"SET", "", "sb1w" + digits(noon) + theirs + we, "PX", 60_000}, "w"},
}

// P9: what is no lock of this kind is left as it is.
func TestAForeignKeyIsLeftAlone(t *testing.T) {
	t.Parallel()
	calls := map[string]struct {
		script *scripts.Script
		args   func(p *place) []any
	}{
		"acquire":  {scripts.ReentrantAcquire, func(*place) []any { return []any{claimOf(ours), lease, digits(noon), we} }},
		"gather":   {scripts.ReentrantGather, func(*place) []any { return []any{claimOf(ours), lease, digits(noon)} }},
		"release":  {scripts.ReentrantRelease, func(p *place) []any { return []any{heldBy(ours, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS} }},
		"withdraw": {scripts.ReentrantWithdraw, func(p *place) []any { return []any{ours, "PUBLISH", p.channel, keepMS} }},
		"yield":    {scripts.ReentrantYield, func(p *place) []any { return []any{ours, lease, digits(noon), "PUBLISH", p.channel, keepMS} }},
		"look":     {scripts.ReentrantLook, func(*place) []any { return []any{we} }},
		"renew":    {scripts.HolderRenew, func(*place) []any { return []any{holdOf("z"), lease} }},
		"describe": {scripts.HolderDescribe, func(*place) []any { return nil }},
		"force":    {scripts.HolderForce, func(p *place) []any { return []any{holdOf("z"), "PUBLISH", p.channel, p.told(), keepMS} }},
		"hello":    {scripts.SessionHello, func(*place) []any { return nil }},
	}
	for what, made := range foreign {
		for verb, call := range calls {
			t.Run(what+"/"+verb, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.server.MustDo(t, append([]any{made.make[0], p.key}, made.make[2:]...)...)
				unchanged, listener := p.untouched(), p.listen()
				reply, err := p.try(call.script, call.args(p)...)
				unchanged()
				require.Empty(t, listener.heard())
				switch {
				case err != nil:
					require.ErrorContains(t, err, "WRONGTYPE")
					require.True(t, made.kind == "" || verb != "acquire" && verb != "gather")
				case verb == "acquire":
					require.Equal(t, []any{int64(-2), made.kind}, reply)
				case verb == "gather" && made.kind != "":
					require.Equal(t, []any{[]any{int64(-2), made.kind}}, reply)
				}
			})
		}
	}
}
