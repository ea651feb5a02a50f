// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// greatest is the greatest lease in these tests, in microseconds.
const greatest int64 = 30_000_000

// voter is one server of a quorum, for one name.
type voter struct {
	*fixture

	epoch, fence string
}

// newVoter returns a server that has had its data for long enough.
func newVoter(tb testing.TB) *voter {
	tb.Helper()
	v := voterOf(newFixture(tb))
	v.since(noon - greatest)
	return v
}

func voterOf(f *fixture) *voter {
	base := strings.TrimSuffix(f.key, "lock")
	return &voter{f, strings.ReplaceAll(strings.ReplaceAll(base, "{", ""), "}", "") + "epoch", base + "fence"}
}

// life is what the server calls itself until its end.
func (v *voter) life() string {
	v.Helper()
	info, _ := v.server.MustDo(v, "INFO", "server").(string)
	_, rest, _ := strings.Cut(info, "run_id:")
	return rest[:40]
}

// since lets the server have its data since then. Its life was not compared since, either.
func (v *voter) since(stamp int64) { v.setEpoch(epochOf(stamp, stamp, v.life())) }

// epochOf is what the epoch says.
func epochOf(since, compared int64, life string) string {
	return "sb1e" + digits(since) + digits(compared) + life
}

// otherLife is the life of a server process that has ended.
const otherLife = "0000000000000000000000000000000000000000"

// elect asks for the lock.
func (v *voter) elect(hold, mark string) []any {
	v.Helper()
	reply, err := v.tryElect(hold, mark, v.clock)
	require.NoError(v, err)
	if now, isBare := reply.(string); isBare {
		return []any{int64(1), now, now}
	}
	return reply.([]any)
}

func (v *voter) tryElect(hold, mark string, notAfter int64) (any, error) {
	v.Helper()
	return v.tryKeys(scripts.RedlockAcquire, []string{v.key, v.epoch, v.fence}, writtenFor(hold), lease, digits(notAfter), mark, greatest)
}

func (v *voter) release(hold string, floor int64) any {
	v.Helper()
	return v.run(scripts.RedlockRelease, hold, digits(floor), "PUBLISH", v.channel, keepMS)
}

func (v *voter) keep(hold string, stamp int64) any {
	v.Helper()
	reply, err := v.tryKeys(scripts.RedlockFence, []string{v.key, v.fence}, hold, digits(stamp))
	require.NoError(v, err)
	return reply
}

func TestAServerOfAQuorumGrantsWhatIsFree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value, fence string
		stamp        int64
	}{
		"Free":          {"", "", noon},
		"Released":      {released(noon - 1), "", noon},
		"ReleasedAhead": {released(noon + 1_000_000), "", noon + 1_000_001},
		"Fenced":        {"", digits(noon + 5), noon + 6},
		"FencedLower":   {released(noon + 9), digits(noon + 5), noon + 10},
		"FencedBehind":  {"", digits(noon - 5), noon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVoter(t)
			if c.value != "" {
				v.set(c.value, time.Hour)
			}
			if c.fence != "" {
				v.server.MustDo(t, "SET", v.fence, c.fence, "PX", 60_000)
			}
			require.Equal(t, []any{int64(1), digits(c.stamp), digits(noon)}, v.elect(ours, we))
			require.Equal(t, votedFor(ours, c.stamp, ""), v.value())
			v.requireLife(lease * time.Millisecond)
		})
	}
}

// P5.
func TestAVoteAskedForTwiceIsGivenOnce(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	v.elect(ours, we)
	v.elect(theirs, they)
	v.clock += 7
	v.server.MustDo(t, "DEL", v.epoch) // which is nothing to a hold that is there
	require.Equal(t, []any{int64(1), digits(noon), digits(noon + 7)}, v.elect(ours, we))
	require.Equal(t, votedFor(ours, noon, they), v.value(), "with the waiter's mark")
}

// One server has one vote, and returns the attempt that has it.
func TestAHeldVoteReturnsItsAttempt(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	v.elect(theirs, "")
	reply := v.elect(ours, we)
	require.Equal(t, int64(0), reply[0])
	require.InDelta(t, lease, reply[1], float64(patience.Milliseconds()))
	require.Equal(t, []any{digits(noon), attempt(theirs)}, reply[2:])
	require.Equal(t, votedFor(theirs, noon, we), v.value())
	v.elect(session("c")+attempt(ours), session("c"))
	require.Equal(t, votedFor(theirs, noon, we), v.value(), "the first mark stays")
}

// P4.
func TestALateVoteWritesNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", released(noon - 5), votedFor(theirs, noon-5, ""), votedFor(ours, noon-5, "")} {
		v := newVoter(t)
		if value != "" {
			v.set(value, time.Hour)
		}
		v.server.MustDo(t, "DEL", v.epoch)
		unchanged := v.untouched()
		reply, err := v.tryElect(ours, we, noon-1)
		require.NoError(t, err)
		require.Equal(t, []any{int64(-1), digits(noon)}, reply)
		unchanged()
		require.Nil(t, v.server.MustDo(t, "GET", v.epoch))
	}
}

// H19: a server that may have forgotten a hold grants nothing until that is over.
func TestAServerThatMayHaveForgottenGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		epoch func(v *voter)
		left  int64
		since int64 // what the epoch is afterwards
	}{
		"New":           {func(v *voter) { v.server.MustDo(v, "DEL", v.epoch) }, greatest, noon},
		"AnotherLife":   {func(v *voter) { v.setEpoch(epochOf(noon-greatest, noon-2000, otherLife)) }, greatest, noon},
		"NoLife":        {func(v *voter) { v.setEpoch(epochOf(noon-greatest, noon-greatest, "")) }, greatest, noon},
		"Young":         {func(v *voter) { v.since(noon - greatest + 1) }, 1, noon - greatest + 1},
		"ClockSetBack":  {func(v *voter) { v.since(noon + 1) }, greatest, noon},
		"ComparedLater": {func(v *voter) { v.setEpoch(epochOf(noon-greatest, noon+1, otherLife)) }, greatest, noon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVoter(t)
			v.set(released(noon-5), time.Hour)
			c.epoch(v)
			unchanged := v.untouched()
			require.Equal(t, []any{int64(-7), c.left, digits(noon)}, v.elect(ours, we))
			unchanged()
			require.Equal(t, epochOf(c.since, noon, v.life()), v.server.MustDo(t, "GET", v.epoch))
			left, _ := v.server.MustDo(t, "PTTL", v.epoch).(int64)
			require.InDelta(t, 7*24*3600*1000, left, float64(patience.Milliseconds()))
			v.clock += c.left
			require.Equal(t, int64(1), v.elect(ours, we)[0])
		})
	}
}

func (v *voter) setEpoch(value string) {
	v.Helper()
	v.server.MustDo(v, "SET", v.epoch, value, "PX", 7*24*3600*1000)
}

// A life is dear to ask for, and compared once in 2 ms: no server restarts in so short a time.
func TestALifeIsComparedOnceInTwoMilliseconds(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	v.setEpoch(epochOf(noon-greatest, noon-1999, otherLife))
	require.Equal(t, int64(1), v.elect(ours, we)[0])
	require.Equal(t, epochOf(noon-greatest, noon-1999, otherLife), v.server.MustDo(t, "GET", v.epoch))
	v.release(ours, noon)
	v.clock++
	require.Equal(t, []any{int64(-7), greatest, digits(noon + 1)}, v.elect(ours, we))

	v.since(noon - greatest)
	require.Equal(t, int64(1), v.elect(ours, we)[0])
	require.Equal(t, epochOf(noon-greatest, noon+1, v.life()), v.server.MustDo(t, "GET", v.epoch))
	v.release(ours, noon+1)
	v.clock += 1999
	require.Equal(t, int64(1), v.elect(ours, we)[0])
	require.Equal(t, epochOf(noon-greatest, noon+1, v.life()), v.server.MustDo(t, "GET", v.epoch))
}

// H19: what a file or a replica has of a server says nothing of when its life was compared: who starts with that compares.
func TestThatALifeWasComparedIsNotReplayed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithArgs("--appendonly", "yes", "--dir", t.TempDir()))
	v := newVoter(t)
	v.fixture.server = redistest.Pool(server)
	t.Cleanup(v.fixture.server.Close)
	v.since(noon - greatest)
	require.Equal(t, int64(1), v.elect(ours, we)[0])
	require.Equal(t, epochOf(noon-greatest, noon, v.life()), server.MustDo(t, "GET", v.epoch))
	server.MustDo(t, "DEBUG", "LOADAOF")
	require.Equal(t, epochOf(noon-greatest, noon-greatest, v.life()), server.MustDo(t, "GET", v.epoch))
	require.Equal(t, votedFor(ours, noon, ""), v.value(), "as the rest of it is")
}

// P4: the epoch ends by itself, and not while it is used.
func TestAnEpochLivesOnByItsUse(t *testing.T) {
	t.Parallel()
	const half = 7 * 12 * 3600 * 1000
	v := newVoter(t)
	v.server.MustDo(t, "PEXPIRE", v.epoch, half+60_000)
	v.elect(ours, we)
	left, _ := v.server.MustDo(t, "PTTL", v.epoch).(int64)
	require.LessOrEqual(t, left, int64(half+60_000), "more than half of it is left")
	v.release(ours, noon)
	v.server.MustDo(t, "PEXPIRE", v.epoch, half-1)
	v.clock += 2000 // it is lengthened as its life is compared
	v.elect(ours, we)
	left, _ = v.server.MustDo(t, "PTTL", v.epoch).(int64)
	require.Greater(t, left, 2*half-patience.Milliseconds())
}

// P9.
func TestAVoteLeavesForeignKeysAlone(t *testing.T) {
	t.Parallel()
	for what, made := range foreign {
		for _, compared := range []int64{noon - greatest, noon} { // its life is to be compared, or not
			v := newVoter(t)
			v.setEpoch(epochOf(noon-greatest, compared, v.life()))
			v.server.MustDo(t, append([]any{made.make[0], v.key}, made.make[2:]...)...)
			unchanged := v.untouched()
			reply, err := v.tryElect(ours, we, noon)
			if made.kind == "" {
				require.ErrorContains(t, err, "WRONGTYPE", what)
			} else {
				require.NoError(t, err, what)
				require.Equal(t, []any{int64(-2), made.kind}, reply, what)
			}
			unchanged()
			require.Equal(t, epochOf(noon-greatest, compared, v.life()), v.server.MustDo(t, "GET", v.epoch), what)
		}
	}
	v := newVoter(t)
	held := lockSays(theirs+turnMode, noon, "q")
	v.set(held, time.Hour)
	require.Equal(t, []any{int64(-2), "l"}, v.elect(ours, we))
	require.Equal(t, []any{int64(0), digits(noon)}, v.release(theirs, noon))
	require.Equal(t, int64(0), v.keep(theirs, noon))
	require.Equal(t, held, v.value())
	v.set(votedFor(theirs, noon, ""), time.Hour)
	l := queueFixtureOf(v.fixture)
	require.Equal(t, []any{int64(-2), "q"}, l.mustRun(scripts.LockEnter, l.keys(), l.enterArgs(ours+turnMode, "0", "")...), "nor does another kind touch it")

	v = newVoter(t)
	v.setEpoch("somebody's")
	require.Equal(t, []any{int64(-2), "?"}, v.elect(ours, we))
	require.Empty(t, v.value())
	v.server.MustDo(t, "DEL", v.epoch)
	v.server.MustDo(t, "RPUSH", v.epoch, "somebody's")
	_, err := v.tryElect(ours, we, noon)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, "list", v.server.MustDo(t, "TYPE", v.epoch))
}

func TestAReleasedVoteNotifiesItsWaiter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		marked    string
		floor     int64
		want      int64
		published []string
	}{
		"Unmarked":     {"", noon + 3, noon + 3, []string{}},
		"Marked":       {they, noon + 3, noon + 3, []string{us}},
		"MarkedByUs":   {we, noon + 3, noon + 3, []string{}},
		"WithoutToken": {they, 0, noon, []string{us}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVoter(t)
			v.set(votedFor(ours, noon, c.marked), time.Hour)
			listener := v.listen()
			require.Equal(t, []any{int64(0), digits(noon)}, v.release(theirs, noon))
			require.Equal(t, int64(1), v.release(ours, c.floor))
			require.Equal(t, released(c.want), v.value())
			v.requireLife(floorLife)
			require.Equal(t, []any{int64(0), digits(noon)}, v.release(ours, c.floor), "once")
			require.Equal(t, c.published, listener.received())
		})
	}
}

func TestAFenceIsKeptBeyondTheHold(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	require.Equal(t, int64(0), v.keep(ours, noon+50))
	require.Nil(t, v.server.MustDo(t, "GET", v.fence), "only a hold leaves one")
	v.elect(ours, we)
	for range 2 {
		require.Equal(t, int64(1), v.keep(ours, noon+50))
		require.Equal(t, votedFor(ours, noon+50, ""), v.value())
		v.requireLife(lease * time.Millisecond)
		require.Equal(t, digits(noon+50), v.server.MustDo(t, "GET", v.fence))
	}
	v.server.MustDo(t, "DEL", v.key) // as when it ends by itself
	require.Equal(t, []any{int64(1), digits(noon + 51), digits(noon)}, v.elect(theirs, they))
	require.Equal(t, int64(0), v.keep(ours, noon+60))
	require.Equal(t, digits(noon+50), v.server.MustDo(t, "GET", v.fence))
}

func TestAPollOfAVoteNotesItsWaiter(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	poll := func() any { return v.run(scripts.RedlockPoll, we) }
	require.Equal(t, int64(-2), poll())
	v.set(released(noon), time.Hour)
	require.Equal(t, int64(-2), poll())
	v.set(votedFor(theirs, noon, "")+"\n3600000", time.Hour)
	require.InDelta(t, time.Hour.Milliseconds(), poll(), float64(patience.Milliseconds()))
	require.Equal(t, votedFor(theirs, noon, we)+"\n3600000", v.value())
	held := lockSays(theirs+turnMode, noon, "-")
	v.set(held, time.Hour)
	require.Equal(t, int64(-2), poll(), "trying tells the kind")
	require.Equal(t, held, v.value())
}

// P10: a release works when nothing else does, and a request for the vote writes nothing then.
func TestAVoteWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	v.fixture.server = serverOfOwn(t)
	v.since(noon - greatest)
	v.set(votedFor(ours, noon, they), time.Hour)
	listener := v.listen()
	v.fill()
	require.Equal(t, int64(1), v.renew(ours, time.Hour))
	require.Equal(t, int64(1), v.release(ours, noon))
	require.Equal(t, released(noon), v.value())
	require.Equal(t, []string{us}, listener.received())
	unchanged := v.untouched()
	_, err := v.tryElect(ours, we, noon)
	require.ErrorContains(t, err, "OOM")
	unchanged()
}

// A caller without the right to INFO can vote. The life of the server is not compared then.
func TestAVoteWithoutTheRightToInfo(t *testing.T) {
	t.Parallel()
	v := newVoter(t)
	v.fixture.server = serverOfOwn(t)
	v.key, v.epoch = "sb:{a}:lock", "sb:epoch"
	user := v.as("+time", "+get", "+mget", "+set", "+pttl", "+pexpire")
	vote := func() any {
		user.clock = v.clock
		reply, err := user.tryKeys(scripts.RedlockAcquire, []string{v.key, v.epoch, "sb:{a}:fence"}, writtenFor(ours), "60000", digits(v.clock), "", digits(greatest))
		require.NoError(t, err)
		return first(reply)
	}
	require.Equal(t, int64(-7), vote())
	require.Equal(t, epochOf(noon, noon, ""), v.server.MustDo(t, "GET", v.epoch))
	v.clock += greatest
	require.Equal(t, digits(v.clock), vote(), "granted")
}
