// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The rights that only WithReplicas takes.
var (
	forCopies           = []string{"+wait"}
	forCopiesInACluster = []string{"+wait", "+discard", "+unsubscribe", "+punsubscribe", "+sunsubscribe"}
)

// usual returns the error of a step if nothing is denied.
func (f *rightsFixture) usual(s workStep) error {
	switch {
	case s == try:
		return signalbox.ErrHeld
	case s == leaseError:
		return signalbox.ErrLost
	case s == copies && len(f.data) == 1:
		return signalbox.ErrNotReplicated
	}
	return nil
}

// everything demands that all steps were taken and ended as usual.
func (f *rightsFixture) everything(t *testing.T) {
	t.Helper()
	steps := []workStep{lockStep, enter, try, holder, isLocked, renew, unlock, waitStep, leave, force, leaseError, copies}
	if _, ok := f.kind.newLock(f.a, f.plain()).(queuedLock); ok {
		steps = append(steps, waiters)
	}
	ended := f.work(t)
	for _, s := range steps {
		require.Contains(t, ended, s)
	}
	for s, err := range ended {
		ends(t, s, err, f.usual(s))
	}
	if _, ok := ended[waiters]; ok {
		require.Equal(t, "b", f.last)
	}
}

// ends demands that a step ended with a certain error, or with none. What a busy machine has not confirmed within a second,
// though nothing was denied, is done in the background: clean demands that.
func ends(t *testing.T, s workStep, err, want error) {
	t.Helper()
	late := (s == unlock || s == leave) && errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrDenied)
	switch {
	case want != nil:
		assert.ErrorIs(t, err, want, s)
	case !late:
		assert.NoError(t, err, s)
	}
}

// P10: locks of every kind work under the rights of the page, on one server, behind sentinels and in a cluster,
// also after a failover, and nothing that is tried is denied.
func TestTheRightsOfThePageAreEnough(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	t.Run("OneServer", func(t *testing.T) {
		t.Parallel()
		s := newServers(t, redistest.Start(t))
		s.areEnough(t, users(t)[oneServer], forCopies, func() {})
	})
	t.Run("BehindSentinels", func(t *testing.T) {
		t.Parallel()
		topology := redistest.StartSentinel(t, redistest.WithFailoverAfter(failoverAfter))
		s := newServers(t, topology)
		s.areEnough(t, users(t)[behindSentinels], forCopies, func() {
			topology.HandOver(t)
			topology.AwaitReady(t)
		})
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
		s := newServers(t, nodes)
		s.areEnough(t, users(t)[inCluster], forCopiesInACluster, func() {
			nodes.HandOver(t, nodes.Slot(t, locktest.Key("reentrant plain")))
			nodes.AwaitReady(t)
		})
	})
}

// areEnough works with locks of every kind under these rights, and more of them for copies, before and after another server takes
// over.
func (s *servers) areEnough(t *testing.T, rights, more []string, failOver func()) {
	t.Helper()
	const others = "others"
	s.allow(t, others, rights)
	s.permits(t, others)
	s.latch(t, others)
	require.Empty(t, s.denials(t, others))
	rights = append(rights, more...)
	var fixtures []*rightsFixture
	for _, k := range rightsKinds() {
		fixtures = append(fixtures, s.newFixture(t, k, k.name, rights))
	}
	each := func(name string, run func(t *testing.T, f *rightsFixture)) {
		t.Run(name, func(t *testing.T) {
			for _, f := range fixtures {
				t.Run(f.kind.name, func(t *testing.T) {
					t.Parallel()
					run(t, f)
				})
			}
		})
	}
	each("AtFirst", func(t *testing.T, f *rightsFixture) {
		f.everything(t)
		for line := range strings.Lines(f.secrets.Recorded()) {
			if strings.Contains(line, "level=") {
				require.Contains(t, line, "a lease was lost before it was unlocked", "what ForceUnlock ends is logged, and nothing else")
			}
		}
	})
	failOver()
	for _, f := range fixtures {
		f.follow(t)
	}
	each("AfterAFailover", func(t *testing.T, f *rightsFixture) {
		f.everything(t)
		require.NoError(t, f.close())
		f.clean(t)
		require.Empty(t, f.denials(t, f.name))
	})
}

// follow waits until both sessions have found the new primary: a TryLock does not wait for that.
func (f *rightsFixture) follow(t *testing.T) {
	t.Helper()
	for _, s := range []*signalbox.Session{f.a, f.b} {
		lock := f.kind.newLock(s, f.kept(), signalbox.WithRenewedLease(rightsLease))
		redistest.Await(t, "a server that grants", func() bool {
			lease, err := lock.TryLock(locktest.Context(t))
			return f.secrets.RecordError(err) == nil && f.secrets.RecordError(lease.Unlock()) == nil
		})
	}
}

// P10: a call that follows a slot on the move gets through under the rights of the page, and without that to ASKING
// when the move is over. What needs several keys waits for that anyway.
func TestASlotOnTheMoveTakesTheRightToAsk(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	nodes := redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
	s, all := newServers(t, nodes), users(t)[inCluster]
	for _, k := range rightsKinds() {
		with := s.newFixture(t, k, k.name, all)
		without := s.newFixture(t, k, k.name+"-without", slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == "+asking" }))
		slot := nodes.Slot(t, locktest.Key(with.plain()))
		move := nodes.BeginMove(t, slot, nodes.Owner(t, (slot+redistest.Slots/2)%redistest.Slots))

		_, err := k.newLock(with.a, with.plain()).Holder(locktest.Context(t))
		require.ErrorIs(t, with.secrets.RecordError(err), signalbox.ErrNotHeld)
		waited := make(chan error, 1)
		ctx := locktest.Context(t)
		go func() {
			_, err := k.newLock(without.a, with.plain()).Holder(ctx)
			waited <- without.secrets.RecordError(err)
		}()
		redistest.Await(t, "a denial", func() bool { return len(without.denials(t, without.name)) > 0 })
		require.Empty(t, waited)
		move.Finish(t)
		require.ErrorIs(t, <-waited, signalbox.ErrNotHeld)
		require.Equal(t, []string{"command asking"}, slices.Compact(without.denials(t, without.name)))
		require.Empty(t, with.denials(t, with.name))
	}
}

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

// The indices of users in the result of users.
const (
	oneServer = iota
	behindSentinels
	atSentinels
	inCluster
)

// page returns the text of docs/security.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	return string(text)
}

// users returns the page's lines that make users, in order: of one server, of the data nodes behind
// sentinels, of the sentinels, of a cluster. Each is what follows "on >password".
func users(t *testing.T) [][]string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^    ACL SETUSER \w+ on >password (.*)$`).FindAllStringSubmatch(page(t), -1)
	require.Len(t, lines, 4)
	rights := make([][]string, len(lines))
	for i, line := range lines {
		rights[i] = strings.Fields(line[1])
	}
	return rights
}
