// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// nodePair is a client of a cluster of two nodes, as far as locks without waiters need one. The clock of the
// second node, which has the odd slots, is ahead of the first's.
type nodePair struct {
	rueidis.Client

	nodes    [2]rueidis.Client
	servers  [2]*fixture
	ahead    time.Duration
	acquires [2]int        // sent
	delay    time.Duration // the delay of the next acquire, which gets no reply
}

func (p *nodePair) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func (p *nodePair) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	node := command.Slot() % 2
	p.tick()
	if command.Commands()[1] == proto.LockEnterScript.SHA1 {
		p.acquires[node]++
		if p.delay > 0 {
			time.AfterFunc(p.delay, func() {
				p.tick()
				p.nodes[node].Do(context.Background(), command)
			})
			p.delay = 0
			return rueidis.NewErrorResult(errors.New("the connection broke"))
		}
	}
	return p.nodes[node].Do(ctx, command)
}

func (p *nodePair) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, 0, len(commands))
	for _, command := range commands {
		results = append(results, p.Do(ctx, command))
	}
	return results
}

// tick sets the clocks of the nodes.
func (p *nodePair) tick() {
	p.servers[0].redis.SetTime(time.Now())
	p.servers[1].redis.SetTime(time.Now().Add(p.ahead))
}

// bubbleOfTwo runs a test in virtual time, with a session on a cluster of two nodes.
func bubbleOfTwo(t *testing.T, ahead time.Duration, test func(*testing.T, *nodePair, *signalbox.Session)) {
	t.Helper()
	locktest.Bubble(t, func(t *testing.T) {
		p := &nodePair{ahead: ahead}
		for i := range p.nodes {
			f := &fixture{T: t, redis: miniredis.NewMiniRedis()}
			f.redis.ClockTTL(true)
			p.servers[i] = f
			p.nodes[i], _ = f.client(t)
			defer f.redis.Close()
			defer p.nodes[i].Close()
		}
		p.Client = p.nodes[0]
		s := signalbox.NewSession(p)
		test(t, p, s)
		require.NoError(t, s.Close(t.Context()))
	})
}

// P4, P5: an acquire that was sent with the time of another node, a minute ahead, may take effect for
// that much longer. It is taken back all the same, at the latest when the node's own clock has
// passed what it was given.
func TestAnAcquireWithAnotherNodesTimeIsUndone(t *testing.T) {
	t.Parallel()
	bubbleOfTwo(t, time.Minute, func(t *testing.T, p *nodePair, s *signalbox.Session) {
		var names [2][]string // locks by node
		for i := range 20 {
			command := p.B().Get().Key(locktest.Key(fmt.Sprint(i))).Build()
			node := command.Slot() % 2
			names[node] = append(names[node], fmt.Sprint(i))
		}
		for node := range names { // the node ahead last: its time is the guess for a slot not known
			lease := atOnce(t, reentrant.New(s, names[node][0]))
			require.NoError(t, lease.Unlock())
		}

		p.delay = 50 * time.Second // longer than patience and lease together
		name := names[0][1]
		require.ErrorContains(t, no(reentrant.New(s, name).TryLock(t.Context())), "the connection broke")
		time.Sleep(55 * time.Second)
		require.Positive(t, p.servers[0].left(name), "the acquire did not come late")
		time.Sleep(10 * time.Second)
		require.Zero(t, p.servers[0].left(name))
	})
}
