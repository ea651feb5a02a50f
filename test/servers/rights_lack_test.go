// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// lackEffect is what the lack of rights does to locks of one kind.
type lackEffect struct {
	// errs are what steps end with; as usual for those that are not named.
	errs map[workStep]error
	// notRequested: locks of this kind do not need the rights.
	notRequested bool
	// late: only a wait of more than about a second needs the rights, and this one may be shorter.
	late bool
	// heals says that what could not be released is released as soon as the rights are there.
	heals bool
	// logged are the sessions that say, in one line each, that there are no messages.
	logged string
}

var (
	denied = signalbox.ErrDenied
	// With nothing no call works, not even a question. With noHolder questions still work.
	nothing    = lackEffect{errs: map[workStep]error{lockStep: denied, try: denied, copies: denied, holder: denied, isLocked: denied}}
	noHolder   = lackEffect{errs: map[workStep]error{lockStep: denied, try: denied, copies: denied, holder: signalbox.ErrNotHeld}}
	waitDenied = lackEffect{errs: map[workStep]error{waitStep: denied}}
	stuck      = lackEffect{errs: map[workStep]error{waitStep: denied, unlock: denied}}
)

// lacks returns, for each kind, the effect of the lack of each right of one server. Rights whose lack has
// the same effect share an entry.
func lacks() map[string]map[string]lackEffect {
	both := map[string]lackEffect{
		"+hgetall +zlexcount": {notRequested: true}, // for groups of shards
		"+evalsha":            nothing, "~sb:*": nothing, "+time": noHolder, "+set": noHolder,
		"+pexpiretime": {errs: map[workStep]error{holder: denied, isLocked: denied, force: denied}},
		"+wait":        {errs: map[workStep]error{copies: denied}},
		"+publish":     {},
		"+subscribe":   {logged: "ab"},
		"&sb:*":        {logged: "ab"},
		"+ping":        {late: true}, // on a connection that is silent for long
		"+info":        {},
		"+mget":        {notRequested: true}, // but by several locks as one
		// Older servers are asked for slots, newer ones for shards.
		"+cluster|slots +cluster|shards": {},
	}
	of := map[string]map[string]lackEffect{
		"exclusive": {
			"+get": {errs: nothing.errs, heals: true},
			// Del is called if memory is full, zscore by a session that queues again, zrank behind many sessions that died.
			"+del +unlink +zcard +zscore +zrank": {notRequested: true},
			"+mget":                              {late: true}, // heartbeats instead of polls
			"+exists":                            {errs: map[workStep]error{leave: denied}, heals: true},
			"+pttl":                              {errs: map[workStep]error{try: denied, waitStep: denied, copies: denied}},
			"+pexpire":                           {errs: map[workStep]error{renew: signalbox.ErrLost, unlock: signalbox.ErrLost, waitStep: denied, copies: denied}},
			"+hget":                              {errs: map[workStep]error{waiters: denied, waitStep: denied, unlock: denied}, heals: true},
			"+hmget":                             waitDenied, "+hset": waitDenied, "+hlen": waitDenied, "+hrandfield": waitDenied, "+hdel": waitDenied,
			"+setrange": waitDenied, "+zadd": {errs: stuck.errs, heals: true}, "+zmscore": waitDenied,
			"+zrange":  {errs: map[workStep]error{waiters: denied, waitStep: denied}},
			"+zrem":    {errs: map[workStep]error{unlock: denied, leave: denied}, heals: true},
			"+pubsub":  {},
			"+zpopmin": {errs: map[workStep]error{unlock: denied, leave: denied}, heals: true},
		},
		"rwlock": {
			"+get":                 {errs: map[workStep]error{isLocked: denied}, heals: true},
			"+set":                 {},
			"+time":                {errs: map[workStep]error{lockStep: denied, try: denied, copies: denied, holder: denied}},
			"+del":                 {errs: map[workStep]error{force: denied}},
			"+exists":              {errs: map[workStep]error{lockStep: denied, try: denied, copies: denied, holder: denied}, heals: true},
			"+pttl":                {errs: map[workStep]error{copies: denied}},
			"+pexpiretime +unlink": {notRequested: true},
			"+zcard":               {errs: map[workStep]error{waitStep: denied, force: denied}, heals: true},
			"+pexpire":             noHolder,
			"+hget":                {errs: stuck.errs, heals: true},
			"+hmget":               waitDenied, "+hset": waitDenied, "+hrandfield": waitDenied, "+hdel": waitDenied,
			"+zadd":   noHolder,
			"+hlen":   {errs: stuck.errs, heals: true},
			"+zscore": {errs: stuck.errs, heals: true},
			"+zrange": {errs: map[workStep]error{
				try: denied, isLocked: denied, holder: denied, waitStep: denied, force: denied,
			}},
			"+zrank":             {errs: map[workStep]error{leave: denied}},
			"+zrem":              {errs: map[workStep]error{waitStep: denied, unlock: denied, force: denied}, heals: true},
			"+zmscore":           {errs: map[workStep]error{lockStep: denied, try: denied, copies: denied, holder: denied}, heals: true},
			"+setrange +zpopmin": {notRequested: true},
			"+pubsub":            {},
		},
	}
	for _, effects := range of {
		for right, effect := range both {
			if _, special := effects[right]; !special && !strings.Contains(strings.Join(slices.Collect(maps.Keys(effects)), " ")+" ", right+" ") {
				effects[right] = effect
			}
		}
	}
	of["reentrant"], of["fair"] = of["exclusive"], of["exclusive"] // one kind at the server
	return of
}

// P10: without a right a call of a lock of any kind returns ErrDenied, or continues without it; nothing is
// left half done.
func TestEachMissingRightIsReportedOrNotNeeded(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	all := append(users(t)[oneServer], forCopies...)
	s := newServers(t, redistest.Start(t))
	for _, k := range rightsKinds() {
		effects := lacks()[k.name]
		for without, want := range effects {
			t.Run(k.name+"/"+title(without), func(t *testing.T) {
				t.Parallel()
				s.lacks(t, k, all, without, want)
			})
		}
		t.Run(k.name+"/eval", func(t *testing.T) {
			t.Parallel()
			// A server that knows the scripts is not sent their texts.
			newServers(t, redistest.Start(t)).lacks(t, k, all, "+eval", nothing)
		})
		for _, right := range all {
			if !strings.HasPrefix(right, "reset") && !strings.HasPrefix(right, "-") && right != "+eval" {
				require.Contains(t, strings.Fields(strings.Join(slices.Collect(maps.Keys(effects)), " ")), right, k.name)
			}
		}
	}
}

// title returns what rights are called in names of tests and users.
func title(rights string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z]+`).ReplaceAllString(rights, "-"), "-")
}

// lacks works under all rights but those.
func (s *servers) lacks(t *testing.T, k rightsKind, all []string, without string, want lackEffect) {
	t.Helper()
	left := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return slices.Contains(strings.Fields(without), r) })
	require.Less(t, len(left), len(all))
	f := s.newFixture(t, k, fmt.Sprintf("%s-%s-%c", k.name, title(without), without[0]), left)
	f.givesUp = want.errs[waitStep] != nil && want.errs[unlock] == nil
	for step, err := range f.work(t) {
		expected, named := want.errs[step]
		if !named {
			expected = f.usual(step)
		}
		ends(t, step, err, expected)
		if (step == unlock || step == leave) && expected == denied { //nolint:errorlint // one of the table
			ends(t, step, err, signalbox.ErrUnconfirmed)
		}
	}
	for step := range want.errs {
		require.Contains(t, f.ended, step)
	}
	switch {
	case want.late:
	case want.notRequested:
		require.Empty(t, f.denials(t, f.name))
	default:
		redistest.Await(t, "the right is asked for", func() bool { return len(f.denials(t, f.name)) > 0 })
	}
	for _, session := range want.logged {
		redistest.Await(t, "its lack is logged", func() bool { return f.logged(string(session)) > 0 })
	}
	if want.heals {
		s.allow(t, f.name, all)
	}
	require.NoError(t, f.close())
	f.clean(t)
	for _, session := range "ab" {
		lines := strings.Count(want.logged, string(session))
		require.Equal(t, lines, f.logged(string(session)), "session %c: %s", session, f.secrets.Recorded())
	}
	for line := range strings.Lines(f.secrets.Recorded()) {
		// Losses, refused calls and releases without a reply are counted: their lines say how many events there were.
		if strings.Contains(line, "level=") && !strings.Contains(line, "events=") {
			require.Contains(t, line, "no unlock messages")
		}
	}
}

// logged returns how often a session has said that there are no messages.
func (f *rightsFixture) logged(session string) (lines int) {
	for line := range strings.Lines(f.secrets.Recorded()) {
		if strings.Contains(line, "no unlock messages") && strings.Contains(line, "session="+session) {
			lines++
		}
	}
	return lines
}
