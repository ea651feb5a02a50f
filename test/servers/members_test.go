// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	// limit is how long a test waits for processes, beside others on a busy machine. Only a broken promise takes that long.
	limit = 3 * time.Minute
	// lease is that of members which are killed or stopped.
	lease = 5 * time.Second
	// total is how many shards there are.
	total = 6
)

const urlEnv = "URL"

// runMember is a member of the group "a". It prints "+ shard token" when a function begins, and "- shard cause" before it returns.
// For each line that it reads, which names a shard, its function prints whether it may work; the line "panic" makes one panic.
func runMember(stdin io.Reader, stdout io.Writer) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv))
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	requested := make(chan string)
	go func() {
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			requested <- lines.Text()
		}
		cancel()
	}()
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(stdout, words...)
	}
	_ = newGroup(s).Run(ctx, func(ctx context.Context, s shards.Shard) error {
		say("+", s.Name(), s.Token())
		for {
			select {
			case line := <-requested:
				if line == "panic" {
					say("panics", s.Name())
					panic(line)
				}
				say("?", s.Name(), s.Err() == nil)
			case <-ctx.Done():
				say("-", s.Name(), errors.Is(context.Cause(ctx), signalbox.ErrLost))
				return nil
			}
		}
	})
	must(s.Close(context.Background()))
}

func newGroup(s *signalbox.Session) *shards.Group {
	return shards.New(s, "a", shards.Count(total), shards.RebalanceDelay(0), signalbox.WithRenewedLease(lease))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// member is a process, and what it has said.
type member struct {
	testing.TB

	*redistest.Process

	owned map[string]string // the tokens of the shards whose functions run
}

func startMember(t *testing.T, server *redistest.Server) *member {
	t.Helper()
	return &member{t, redistest.Child(t, "member", urlEnv+"="+server.URL()), make(map[string]string)}
}

// next reads what the process says next, and returns the words.
func (m *member) next() []string {
	m.Helper()
	text, err := m.ReadLine(limit)
	require.NoError(m, err, m.Stderr())
	words := strings.Fields(text)
	switch words[0] {
	case "+":
		m.owned[words[1]] = words[2]
	case "-":
		delete(m.owned, words[1])
	}
	return words
}

// nextLine reads until the process says something of that kind, and returns the shard.
func (m *member) nextLine(kind string) string {
	m.Helper()
	for {
		if words := m.next(); words[0] == kind {
			return words[1]
		}
	}
}

// until reads until the process owns n shards.
func (m *member) until(n int) {
	m.Helper()
	for len(m.owned) != n {
		m.next()
	}
}

// P2: a process that was stopped past its lease learns at its first check that it owns nothing, and joins again.
func TestAStoppedMemberLearnsOfItsLossAtTheFirstCheck(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process is stopped for longer than its lease lasts")
	server := redistest.Start(t)
	a := startMember(t, server)
	a.until(total)
	lost := maps.Clone(a.owned)
	a.Freeze()
	b := startMember(t, server)
	b.until(total)
	a.Send("check")
	a.Thaw()
	for len(lost) > 0 { // it may be granted the first one anew before the last one has ended
		words := a.next()
		if lost[words[1]] == "" {
			continue
		}
		switch words[0] {
		case "?":
			require.Equal(t, "false", words[2])
		case "-":
			require.Equal(t, "true", words[2], "it was lost")
			delete(lost, words[1])
		}
	}
	a.until(total / 2)
	b.until(total / 2)
	a.CloseInput()
	require.Zero(t, a.Wait(limit))
	b.until(total)
	b.CloseInput()
	require.Zero(t, b.Wait(limit))
}

// A function that panics releases its shard before the process ends: another member is granted it first, and the rest after the
// lease. The order is that of the tokens: functions of different shards print in any order.
func TestAPanicReleasesItsShardFirst(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a process that panicked has to expire on the server")
	server := redistest.Start(t)
	a := startMember(t, server)
	a.until(total)
	b := startMember(t, server)
	b.until(total / 2)
	a.until(total / 2)
	a.Send("panic")
	panicked := a.nextLine("panics")
	b.until(total)
	for name := range a.owned {
		require.GreaterOrEqual(t, b.owned[name], b.owned[panicked], "the shard of the function is the first")
	}
	require.NotZero(t, a.Wait(limit))
	require.Contains(t, a.Stderr(), "panic: panic")
	b.CloseInput()
	require.Zero(t, b.Wait(limit))
}

// P9: groups work on every topology, whatever their names: keys and channels share a slot.
func TestAGroupWorksEverywhere(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	redistest.Slow(t, "a new group grants nothing for two seconds")
	for _, starter := range redistest.Topologies() {
		t.Run(starter.Name, func(t *testing.T) {
			t.Parallel()
			top, err := starter.Start(redistest.WithFailoverAfter(time.Minute))
			require.NoError(t, err)
			t.Cleanup(top.Close)
			one, other := locktest.Session(t, top), locktest.Session(t, top)
			for _, name := range []string{"plain", "{tag}rest", "}{"} {
				play(t, one, other, name)
			}
		})
	}
}

// play moves a shard from one session to another.
func play(t *testing.T, one, other *signalbox.Session, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	set := shards.Names("x", "y")
	mine, theirs := shards.New(one, name, set, shards.RebalanceDelay(0)), shards.New(other, name, set, shards.RebalanceDelay(0))
	a := joinsGroup(ctx, t, mine)
	await(ctx, t, theirs, func(v *shards.View) bool { return ownedBy(v, one) == 2 })
	b := joinsGroup(ctx, t, theirs)
	await(ctx, t, mine, func(v *shards.View) bool { return ownedBy(v, one) == 1 && ownedBy(v, other) == 1 })
	require.NoError(t, a.Leave(ctx))
	await(ctx, t, theirs, func(v *shards.View) bool { return ownedBy(v, other) == 2 })
	require.NoError(t, b.Leave(ctx))
	await(ctx, t, mine, func(v *shards.View) bool { return len(v.Members) == 0 && v.Unowned == 2 })
}

// joinsGroup makes a member, which releases what is wanted elsewhere. A busy machine may lose the lease of a young member, which is 3 s: the
// member joins again then.
func joinsGroup(ctx context.Context, t *testing.T, g *shards.Group) *shards.Member {
	t.Helper()
	m, err := g.Join(ctx)
	require.NoError(t, err)
	go func() {
		for c := range m.Changes() {
			if c.Kind != shards.Granted {
				assert.Error(t, c.Shard.Err())
				_ = c.Shard.Release()
				assert.ErrorIs(t, c.Shard.Release(), signalbox.ErrNotHeld)
			}
		}
	}()
	return m
}

// await waits until an observer sees what it is to see.
func await(ctx context.Context, t *testing.T, g *shards.Group, isSeen func(*shards.View) bool) {
	t.Helper()
	for v, err := range g.Watch(ctx) {
		if err == nil && isSeen(v) {
			return
		}
	}
	require.Fail(t, "an observer never saw it")
}

// ownedBy returns how many shards a session owns.
func ownedBy(v *shards.View, s *signalbox.Session) (n int) {
	for _, name := range v.Names() {
		if o, _ := v.Owner(name); o.State == shards.Owned && o.Session == s.ID() {
			n++
		}
	}
	return n
}
