// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	// walkShards is how many shards a group of walkers has at first, and mostWalkers how many processes there are at most.
	walkShards, mostWalkers = 40, 10
	// walkLease is the lease of walkers.
	walkLease = 5 * time.Second
	// mostSilent is for how long a shard may have no owner before Health says so, on a busy machine.
	mostSilent = walkLease + 18*time.Second
	// cellPause is how long a walker waits between two writes.
	cellPause = 100 * time.Millisecond
	// mostElsewhere is for how long a walker gives a shard away.
	mostElsewhere = 3 * time.Second
)

const (
	modeEnv  = "MODE"  // run or changes: how the process is a member
	drainEnv = "DRAIN" // the drain limit, or 0s
)

// walker is what a process that takes orders knows.
type walker struct {
	store  rueidis.Client
	group  *shards.Group
	orders chan string
	member atomic.Pointer[shards.Member]
}

// runWalker is a member whose functions write to the store, and do what lines of its input say.
func runWalker(stdin io.Reader, _ io.Writer) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv))
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	weight, err := strconv.Atoi(os.Getenv(weightEnv))
	must(err)
	limit, err := time.ParseDuration(os.Getenv(drainEnv))
	must(err)
	options := []signalbox.LockOption{shards.Weight(weight), shards.RebalanceDelay(500 * time.Millisecond), signalbox.WithRenewedLease(walkLease), shards.Retry(50*time.Millisecond, time.Second)}
	if limit > 0 {
		options = append(options, shards.DrainLimit(limit))
	}
	w := &walker{store: storeOf(os.Getenv(storeEnv)), group: shards.New(s, "a", shards.Count(walkShards), options...), orders: make(chan string, 100)}
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			w.does(ctx, lines.Text())
		}
	}()
	if os.Getenv(modeEnv) == "run" {
		err = w.group.Run(ctx, w.work)
	} else {
		err = w.byChanges(ctx)
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, shards.ErrLeft) {
		must(fmt.Errorf("run: %w", err))
	}
	_ = s.Close(context.Background()) // the connection may be broken
}

// does carries out a line.
func (w *walker) does(ctx context.Context, line string) {
	words := strings.Fields(line)
	call := func(do func(ctx context.Context) error) {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			_ = do(ctx)
		}()
	}
	switch words[0] {
	case "weight":
		n, err := strconv.Atoi(words[1])
		must(err)
		if m := w.member.Load(); m != nil {
			call(func(ctx context.Context) error { return m.SetWeight(ctx, n) })
		}
	case "resize":
		n, err := strconv.Atoi(words[1])
		must(err)
		call(func(ctx context.Context) error { return w.group.Resize(ctx, n) })
	case "move":
		call(func(ctx context.Context) error { return w.group.Move(ctx, words[1], words[2]) })
	default:
		select {
		case w.orders <- line:
		default:
		}
	}
}

func (w *walker) byChanges(ctx context.Context) error {
	m, err := w.group.Join(ctx)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	w.member.Store(m)
	defer context.AfterFunc(ctx, func() { _ = m.Leave(context.Background()) })()
	var functions sync.WaitGroup
	for c := range m.Changes() {
		if c.Kind == shards.Granted {
			functions.Go(func() {
				defer c.Shard.Release()
				for bound := c.Shard.Bind(context.Background()); bound.Err() == nil && w.work(bound, c.Shard) == nil; {
					pause(bound, cellPause)
				}
			})
		}
	}
	functions.Wait()
	<-m.Done()
	return m.Err() //nolint:wrapcheck // the test's own
}

var errWalker = errors.New("as it was told")

// work writes until the shard is to move, and while it drains.
func (w *walker) work(ctx context.Context, s shards.Shard) error {
	drain := time.Duration(s.Index()%8) * cellPause
	for ctx.Err() == nil {
		w.write(ctx, s)
		pause(ctx, cellPause)
		select {
		case line := <-w.orders:
			switch words := strings.Fields(line); words[0] {
			case "nil":
				return nil
			case "error":
				return errWalker
			case "elsewhere":
				return shards.Elsewhere(errWalker, mostElsewhere)
			case "panic":
				panic(line)
			case "hang":
				d, err := time.ParseDuration(words[1])
				must(err)
				drain = d
			}
		default:
		}
	}
	for till := time.Now().Add(drain); time.Now().Before(till) && !errors.Is(s.Err(), signalbox.ErrLost); {
		w.write(ctx, s)
		pause(context.WithoutCancel(ctx), cellPause)
	}
	return nil
}

// write writes to the store. If that has had a write of a later owner, and the context has not ended yet, two were live.
func (w *walker) write(ctx context.Context, s shards.Shard) {
	words := []string{s.Name(), strconv.FormatUint(s.Token(), 10), strconv.Itoa(os.Getpid()), "0"}
	n, err := writeScript.Exec(context.Background(), w.store, nil, words).AsInt64()
	must(err)
	if n == 0 && ctx.Err() == nil && s.Err() == nil {
		w.store.Do(context.Background(), w.store.B().Rpush().Key("events").Element(fmt.Sprintf("live %s %d %d", s.Name(), s.Token(), os.Getpid())).Build())
	}
}

// walk is processes to which things happen at random, and the store that they write to.
type walk struct {
	*testing.T

	random *rand.Rand
	server *redistest.Server
	judge  *redistest.Server // the store: nothing happens to it
	proxy  *redistest.Proxy
	store  rueidis.Client
	views  *shards.Group
	limit  time.Duration

	all     []*walkerProcess
	writer  map[string]string // who wrote with the greatest token, by shard
	token   map[string]uint64
	moved   []string // the shards whose writer changed, with the one before, since it was emptied
	movedAt time.Time
	banned  time.Time // until when a shard may be kept from a member
	since   time.Time // nothing before counts for the time without a writer
	nils    int
	count   map[string]int
	grants  int
}

type walkerProcess struct {
	*redistest.Process

	behind bool // the proxy
}

func newWalk(t *testing.T, seed uint64) *walk {
	t.Helper()
	w := &walk{
		T: t, random: rand.New(rand.NewPCG(seed, 9)), server: redistest.Start(t), judge: redistest.Start(t),
		writer: make(map[string]string), token: make(map[string]uint64), count: make(map[string]int), since: time.Now(), movedAt: time.Now(),
	}
	w.proxy = redistest.NewProxy(t, w.server.Addr())
	w.store = w.judge.Client(t, locktest.Steady)
	if w.random.IntN(3) == 0 {
		w.limit = 3 * time.Second
	}
	session, err := signalbox.Dial(t.Context(), w.server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close(context.Background()) })
	w.views = shards.New(session, "a", shards.Count(walkShards), signalbox.WithRenewedLease(walkLease))
	for range 4 {
		w.starts(1)
	}
	return w
}

func (w *walk) starts(weight int) {
	p := &walkerProcess{behind: w.random.IntN(2) == 0}
	url := w.server.URL()
	if p.behind {
		url = w.proxy.URL()
	}
	p.Process = redistest.Child(w.T, "walker", urlEnv+"="+url, storeEnv+"="+w.judge.URL(), fmt.Sprintf("%s=%d", weightEnv, weight),
		modeEnv+"="+[]string{"run", "changes"}[w.random.IntN(2)], fmt.Sprintf("%s=%v", drainEnv, w.limit))
	w.all = append(w.all, p)
}

func (w *walk) take() *walkerProcess {
	i := w.random.IntN(len(w.all))
	p := w.all[i]
	w.all = slices.Delete(w.all, i, i+1)
	return p
}

func (w *walk) one() *walkerProcess { return w.all[w.random.IntN(len(w.all))] }

// reads takes in what the store says, for that time, and judges each second.
func (w *walk) reads(d time.Duration) {
	w.Helper()
	for till := time.Now().Add(d); ; {
		list, err := w.store.Do(w.Context(), w.store.B().Lpop().Key("events").Count(1000).Build()).AsStrSlice()
		if err != nil && !rueidis.IsRedisNil(err) {
			require.NoError(w, err)
		}
		for _, line := range list {
			w.event(line)
		}
		if left := time.Until(till); left <= 0 {
			return
		} else {
			time.Sleep(min(left, time.Second)) //nolint:forbidigo // processes take real time
		}
		w.judges()
	}
}

func (w *walk) event(line string) {
	w.Helper()
	words := strings.Fields(line)
	what, shard, process := words[0], words[1], words[3]
	token, err := strconv.ParseUint(words[2], 10, 64)
	require.NoError(w, err)
	switch what {
	case "owned":
		w.grants++
		require.Greater(w, token, w.token[shard], "the token of shard %s", shard)
		if last := w.writer[shard]; last != process {
			w.moved = append(w.moved, last)
			w.movedAt = time.Now()
		}
		w.writer[shard], w.token[shard] = process, token
	case "refused":
		w.count["late writes refused"]++
	default:
		require.Fail(w, "two owners", "%v", words)
	}
}

// silent returns the shards that nobody has written to for d.
func (w *walk) silent(v *shards.View, d time.Duration) (names []string) {
	w.Helper()
	cells, err := w.store.Do(w.Context(), w.store.B().Hgetall().Key("cells").Build()).AsStrMap()
	require.NoError(w, err)
	for _, name := range v.Names() {
		last := w.since
		if words := strings.Fields(cells[name]); len(words) == 3 {
			us, err := strconv.ParseInt(words[2], 10, 64)
			require.NoError(w, err)
			if at := time.UnixMicro(us); at.After(last) {
				last = at
			}
		}
		if time.Since(last) > d {
			names = append(names, name)
		}
	}
	return names
}

// judges requires that Health says so if a shard has had no owner for long.
func (w *walk) judges() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
	defer cancel()
	v, err := w.views.View(ctx)
	if err != nil {
		return
	}
	names := w.silent(v, mostSilent)
	if len(names) == 0 || w.views.Health(ctx) != nil {
		if len(names) > 0 {
			w.count["health: not nil, and must not be"]++
		}
		w.nils = 0
		return
	}
	if w.nils++; w.nils > 5 {
		for _, name := range names {
			o, _ := v.Owner(name)
			w.Logf("%+v", o)
		}
		require.Fail(w, "Health returns nil", "no process has written to %q for %v; %d members, %d unowned, %d drain", names, mostSilent, len(v.Members), v.Unowned, v.Draining)
	}
}

// step does one thing at random.
func (w *walk) step() {
	w.Helper()
	verbs := []string{
		"start", "start", "start many", "kill", "kill", "end", "freeze briefly", "freeze", "freeze", "cut", "half-open", "drop pushes", "refuse", "late", "weight", "weight",
		"resize", "move", "nil", "error", "elsewhere", "panic", "hang", "hang", "server stops", "flush", "lost key", "full", "read-only", "scripts", "clients", "rest",
	}
	verb := verbs[w.random.IntN(len(verbs))]
	w.count[verb]++
	upTo := func(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }
	switch verb {
	case "start":
		if len(w.all) < mostWalkers {
			w.starts(1 + w.random.IntN(3))
		}
	case "start many":
		for len(w.all) < mostWalkers {
			w.starts(1)
		}
	case "kill":
		if len(w.all) > 2 {
			w.take().Kill()
		}
	case "end":
		if len(w.all) > 2 {
			w.take().CloseInput()
		}
	case "freeze briefly", "freeze":
		p, d := w.one(), upTo(walkLease/2)
		if verb == "freeze" {
			d = walkLease + upTo(3*walkLease)
		}
		p.Freeze()
		w.reads(d)
		p.Thaw()
	case "cut":
		w.proxy.CutAll()
	case "half-open":
		w.proxy.HalfOpenAll()
	case "drop pushes":
		w.proxy.DropPushes(true)
		w.reads(upTo(20 * time.Second))
		w.proxy.DropPushes(false)
	case "refuse":
		w.proxy.Refuse()
		w.reads(upTo(2 * walkLease))
		w.proxy.Accept()
	case "late":
		w.proxy.SetLatency(upTo(1200 * time.Millisecond))
		w.reads(upTo(15 * time.Second))
		w.proxy.SetLatency(0)
	case "weight":
		w.one().Send(fmt.Sprint("weight ", w.random.IntN(4)))
	case "resize":
		w.one().Send(fmt.Sprint("resize ", 20+w.random.IntN(40)))
	case "move":
		if v, err := w.views.View(w.Context()); err == nil && len(v.Members) > 0 {
			w.one().Send(fmt.Sprintf("move %d %s", w.random.IntN(v.Count), v.Members[w.random.IntN(len(v.Members))].Session))
		}
	case "nil", "error":
		w.one().Send(verb)
	case "elsewhere":
		for range 1 + w.random.IntN(10) {
			w.one().Send(verb)
		}
	case "panic":
		if len(w.all) > 2 {
			w.take().Send(verb)
		}
	case "hang":
		w.one().Send(fmt.Sprint("hang ", upTo(30*time.Second)))
	case "server stops":
		w.server.Freeze()
		time.Sleep(upTo(2 * walkLease)) //nolint:forbidigo // processes take real time
		w.server.Thaw()
	case "flush", "lost key":
		w.reads(6 * time.Second) // all members are well, and reach the server within two seconds
		w.since = time.Now()
		if verb == "flush" {
			w.server.MustDo(w.T, "FLUSHALL")
		} else {
			keys := locktest.Keys("a").ShardKeys()
			w.server.MustDo(w.T, "DEL", keys[w.random.IntN(len(keys))])
		}
		w.reads(6 * time.Second)
	case "full":
		w.server.MustDo(w.T, "CONFIG", "SET", "maxmemory", "1")
		w.reads(upTo(15 * time.Second))
		w.server.MustDo(w.T, "CONFIG", "SET", "maxmemory", "0")
	case "read-only":
		w.server.MustDo(w.T, "REPLICAOF", "127.0.0.1", "1")
		w.reads(upTo(8 * time.Second))
		w.server.MustDo(w.T, "REPLICAOF", "NO", "ONE")
	case "scripts":
		w.server.MustDo(w.T, "SCRIPT", "FLUSH")
	case "clients":
		w.server.MustDo(w.T, "CLIENT", "KILL", "TYPE", []string{"normal", "pubsub"}[w.random.IntN(2)], "SKIPME", "yes")
	}
	w.banned = time.Now().Add(40 * time.Second) // an error gives a shard away for 30 s in the mode of changes
}

// rests waits until all shards are written to, and none moves.
func (w *walk) rests() bool {
	w.Helper()
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		w.reads(time.Second)
		v, err := w.views.View(w.Context())
		if err == nil && time.Since(w.movedAt) > 8*time.Second && time.Now().After(w.banned) && len(w.silent(v, 5*time.Second)) == 0 && v.Draining == 0 {
			return true
		}
	}
	v, err := w.views.View(w.Context())
	require.NoError(w, err)
	if time.Since(w.movedAt) < 30*time.Second && time.Now().After(w.banned) {
		w.count["no rest"]++
	}
	pauses := !slices.ContainsFunc(v.Members, func(m shards.MemberInfo) bool { return m.Weight > 0 })
	for _, name := range w.silent(v, time.Minute) {
		o, _ := v.Owner(name)
		require.True(w, pauses || o.Losses > 2, "nobody writes to %+v: %+v", o, v.Members)
	}
	return false
}

// crashes kills processes one after the other, and requires that their shards alone move.
func (w *walk) crashes() {
	w.Helper()
	for len(w.all) < 5 {
		w.starts(1 + w.random.IntN(3))
	}
	for len(w.all) > 3 {
		if !w.rests() {
			return
		}
		v, err := w.views.View(w.Context())
		require.NoError(w, err)
		p := w.take()
		own := pid(p.Process)
		had := 0
		for _, name := range v.Names() {
			if w.writer[name] == own {
				had++
			}
		}
		w.moved = nil
		p.Kill()
		began := time.Now()
		for moved := time.Now(); time.Since(began) < 30*time.Second && (len(w.moved) < had || time.Since(moved) < 5*time.Second); {
			n := len(w.moved)
			w.reads(200 * time.Millisecond)
			if len(w.moved) > n {
				moved = time.Now()
			}
		}
		w.count["crashes at rest"]++
		others := slices.DeleteFunc(slices.Clone(w.moved), func(last string) bool { return last == own })
		if len(others) > 0 || len(w.moved) != had {
			w.Errorf("a crash: %d shards, %d moves, of which %d of others; %+v", had, len(w.moved), len(others), v.Members)
		}
	}
}

// TestSoakWalkers lets processes live through what happens to them at random, beside a real server.
func TestSoakWalkers(t *testing.T) {
	t.Parallel()
	more := locktest.Soak(t)
	seed := locktest.Seed(t)
	t.Logf("seed %d", seed)
	w := newWalk(t, seed)
	for n := 0; more(); n++ {
		if n%12 == 0 {
			w.crashes()
		}
		w.step()
		w.reads(time.Duration(w.random.Int64N(int64(5 * time.Second))))
	}
	w.rests()
	t.Logf("%d grants: %v", w.grants, w.count)
}
