// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// fault is what happens to one request.
type fault struct {
	lost    bool          // the request does not reach the server
	after   time.Duration // when the request is executed, whether or not its sender waits
	silent  bool          // the request is executed, and its reply is lost
	cut     bool          // the connection ends instead of a reply
	mute    bool          // the request is not executed; the reply is -1 for every key
	refusal string        // the request is not executed; the error of the server
	stuck   bool          // the sender gets the reply even if it has given up
}

// model is a server whose keys end in virtual time.
type model struct {
	testing.TB

	executing sync.WaitGroup

	mu struct {
		sync.Mutex
		keys      map[string]*serverKey
		fault     func(request int) fault // the fault of the n-th request, from 1
		requests  int
		renewed   int
		largest   int                   // the greatest number of keys of a script
		ticks     map[time.Duration]int // renewals by the millisecond
		lifetimes []time.Duration       // the lives requested, while there are few
		at        []time.Time           // when the lives were requested
	}
}

// key is one holder key.
type serverKey struct {
	hold string // "" is a key of the wrong type
	ends time.Time
}

// RunByKey implements Server.
func (m *model) RunByKey(ctx context.Context, c wire.KeyedCall) []wire.KeyedReply {
	require.Equal(m, wire.KeyedCall{Script: c.Script, Keys: c.Keys, PerKey: c.PerKey, MaxKeys: maxKeys, HasLoss: true}, c)
	all := func(r wire.KeyedReply) []wire.KeyedReply { return slices.Repeat([]wire.KeyedReply{r}, len(c.Keys)) }
	done := make(chan []wire.KeyedReply, 1)
	f := m.count(c)
	switch {
	case f.refusal != "":
		return all(wire.KeyedReply{Err: redistest.Outcome(redistest.Refusal(f.refusal)).Err})
	case f.mute:
		return all(wire.KeyedReply{Value: -1})
	case !f.lost:
		m.executing.Go(func() {
			time.Sleep(f.after)
			switch replies := m.execute(c); {
			case f.cut:
				done <- all(wire.KeyedReply{Err: io.EOF})
			case !f.silent:
				done <- replies
			}
		})
	}
	if f.stuck {
		return <-done
	}
	select {
	case replies := <-done:
		return replies
	case <-ctx.Done():
		return all(wire.KeyedReply{Err: ctx.Err()})
	}
}

// count counts a request and returns its fault.
func (m *model) count(c wire.KeyedCall) fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Contains(m, []*scripts.Script{proto.HolderRenewScript, proto.LockKeepScript}, c.Script)
	require.Len(m, c.PerKey, 2*len(c.Keys))
	m.mu.requests++
	m.mu.largest = max(m.mu.largest, len(c.Keys))
	m.mu.renewed += len(c.Keys)
	m.mu.ticks[timers.Mono().Truncate(time.Millisecond)] += len(c.Keys)
	if len(m.mu.lifetimes) < 1000 {
		m.mu.lifetimes, m.mu.at = append(m.mu.lifetimes, millis(m, c.PerKey[1])), append(m.mu.at, time.Now())
	}
	if m.mu.fault == nil {
		return fault{}
	}
	return m.mu.fault(m.mu.requests)
}

// execute is the script.
func (m *model) execute(c wire.KeyedCall) []wire.KeyedReply {
	m.mu.Lock()
	defer m.mu.Unlock()
	replies := make([]wire.KeyedReply, len(c.Keys))
	for i, name := range c.Keys {
		k := m.mu.keys[name]
		if k == nil || k.hold != c.PerKey[2*i] || !time.Now().Before(k.ends) {
			continue
		}
		replies[i].Value = 1
		if life := millis(m, c.PerKey[2*i+1]); life > 0 {
			k.ends = time.Now().Add(life)
		}
	}
	return replies
}

func millis(tb testing.TB, text string) time.Duration {
	tb.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(tb, err)
	require.GreaterOrEqual(tb, n, 0)
	return time.Duration(n) * time.Millisecond
}

func (m *model) set(t func(request int) fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.fault = t
}

func (m *model) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.requests
}

func (m *model) renewals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.renewed
}

// steal gives the key of o to another client; "" makes it a key of the wrong type.
func (m *model) steal(o *ownedTerm, hold string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.keys[o.serverKey].hold = hold
}

// extend lets the key of o live for life from now on.
func (m *model) extend(o *ownedTerm, life time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.keys[o.serverKey].ends = time.Now().Add(life)
}

// ends returns when the key of o ends without further calls.
func (m *model) ends(o *ownedTerm) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.keys[o.serverKey].ends
}

// ownedTerm is a term with its owner.
type ownedTerm struct {
	Term

	server          *model
	serverKey, hold string
	ended           struct {
		sync.Mutex
		causes []error
		gone   bool
		at     time.Time
	}
}

// OnKept implements KeptOwner.
func (o *ownedTerm) OnKept(sent timers.Instant, _ bool) {
	require.Equal(o.server, timers.Mono(), sent.Mono(), "the model replies at once")
}

// Renewed implements Owner.
func (o *ownedTerm) Renewed() (key, hold string) { return o.serverKey, o.hold }

// OnTermEnd implements Owner, and holds the term to P2: it ends before its key does.
func (o *ownedTerm) OnTermEnd(end End) {
	o.ended.Lock()
	defer o.ended.Unlock()
	o.ended.causes, o.ended.gone, o.ended.at = append(o.ended.causes, end.Cause), end.Gone, time.Now()
	if ends := o.server.ends(o); !end.Gone && !time.Now().Before(ends) {
		o.server.Errorf("%s ended at %v, and its key at %v", o.serverKey, time.Now(), ends)
	}
}

// causes returns why the term ended, as often as its owner was notified.
func (o *ownedTerm) causes() []error {
	o.ended.Lock()
	defer o.ended.Unlock()
	return o.ended.causes
}

// fixture is a keeper with its server.
type termFixture struct {
	testing.TB
	*Keeper

	server *model
	made   int
}

// bubble runs a test with a fixture in virtual time.
func bubble(t *testing.T, test func(f *termFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &model{TB: t}
		server.mu.keys = make(map[string]*serverKey)
		server.mu.ticks = make(map[time.Duration]int)
		f := &termFixture{TB: t, Keeper: NewKeeper(server, timers.New(), nil), server: server}
		defer server.executing.Wait()
		defer f.timers.Close()
		defer f.Keeper.Close()
		test(f)
	})
}

// start begins a term like an acquire that had its reply at once.
func (f *termFixture) start(config Config) *ownedTerm {
	o := f.make(config)
	o.Start(timers.Now())
	return o
}

// make makes a term that is not kept yet, with the life that it is to have.
func (f *termFixture) make(config Config) *ownedTerm {
	life := config.Life
	if !config.Until.IsZero() {
		life = min(life, config.Until.Until(timers.Now()))
	}
	return f.makeWith(config, life)
}

// startGiven begins a term to which the server gave life at first.
func (f *termFixture) startGiven(config Config, life time.Duration) *ownedTerm {
	o := f.makeWith(config, life)
	o.Start(timers.Now())
	return o
}

func (f *termFixture) makeWith(config Config, life time.Duration) *ownedTerm {
	f.made++
	o := &ownedTerm{server: f.server, serverKey: "key" + strconv.Itoa(f.made), hold: "hold" + strconv.Itoa(f.made)}
	f.server.mu.Lock()
	f.server.mu.keys[o.serverKey] = &serverKey{hold: o.hold, ends: time.Now().Add(life)}
	f.server.mu.Unlock()
	config.Keeper = f.Keeper
	o.Init(o, &config, life, timers.Now())
	return o
}

// renewed returns the terms of a renewed lease.
func renewed(life time.Duration) Config { return Config{Life: life, Renewed: true} }

// currentState returns the state of a term.
func (o *ownedTerm) currentState() termState {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.state
}

// untilRenewing sleeps until a renewal of o is on its way.
func (o *ownedTerm) untilRenewing() {
	for o.currentState() != renewing {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * time.Millisecond) // the batch's tick
	synctest.Wait()
}
