// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/shards"
)

// newGroup returns the group of a scene.
func newGroup(c *callFixture) *shards.Group { return shards.New(c.session(), "a", shards.Count(2)) }

// joinsElsewhere makes another process the only member of the group.
func joinsElsewhere(c *callFixture) { joinElsewhere(c, shards.Count(2)) }

func joinElsewhere(c *callFixture, set shards.Set) {
	m, err := shards.New(c.other[0], "a", set).Join(context.Background())
	c.must(err)
	go locktest.TakeUp(m)
	time.Sleep(5 * time.Second) // its first polls; a new group grants nothing for two seconds
}

// joined makes a member of the session under test that owns both shards.
func joined(c *callFixture) *shards.Member {
	m, err := newGroup(c).Join(context.Background())
	c.must(err)
	go locktest.TakeUp(m)
	time.Sleep(20 * time.Second) // it has its whole lease
	return m
}

// shardMembers returns the calls of a member.
func shardMembers() []testedCall {
	call := func(do func(*shards.Member, context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			m := joined(c)
			return func(ctx context.Context) error { return do(m, ctx) }
		}
	}
	return []testedCall{
		{name: "shards.Member.SetWeight", class: sets, ready: call(func(m *shards.Member, ctx context.Context) error { return m.SetWeight(ctx, 2) })},
		{name: "shards.Member.SetValue", class: sets, ready: call(func(m *shards.Member, ctx context.Context) error { return m.SetValue(ctx, "b") })},
		{name: "shards.Member.Leave", class: parts, ready: call(func(m *shards.Member, ctx context.Context) error { return m.Leave(ctx) })},
	}
}

// groups returns the calls of a group.
func groups() []testedCall {
	beside := func(set shards.Set, do func(*shards.Group, context.Context) error) prepareCall {
		return func(c *callFixture) preparedCall {
			joinElsewhere(c, set)
			g := newGroup(c)
			return func(ctx context.Context) error { return do(g, ctx) }
		}
	}
	return []testedCall{
		{name: "shards.Group.Join", class: insists, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newGroup(c).Join(ctx)) }
		}},
		{name: "shards.Group.Run", class: listens, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				return newGroup(c).Run(ctx, func(ctx context.Context, _ shards.Shard) error { return ctx.Err() })
			}
		}},
		{name: "shards.Group.View", class: requests, holds: joinsElsewhere, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newGroup(c).View(ctx)) }
		}},
		{name: "shards.Group.Owner", class: requests, holds: joinsElsewhere, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return no(newGroup(c).Owner(ctx, "0")) }
		}},
		{name: "shards.Group.Health", class: requests, holds: joinsElsewhere, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return newGroup(c).Health
		}},
		{name: "shards.Group.Move", class: requests, holds: joinsElsewhere, free: "ErrNotHeld", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return newGroup(c).Move(ctx, "0", c.other[0].ID()) }
		}},
		{name: "shards.Group.Watch", class: listens, ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) (last error) {
				for _, last = range newGroup(c).Watch(ctx) { // the last error says how it ends
				}
				return last
			}
		}},
		{name: "shards.Group.Resize", class: insists, ready: beside(shards.Count(2), func(g *shards.Group, ctx context.Context) error {
			return g.Resize(ctx, 2)
		})},
		{name: "shards.Group.Sync", class: insists, ready: beside(shards.Names(), func(g *shards.Group, ctx context.Context) error {
			return g.Sync(ctx, []string{"x"})
		})},
	}
}

// shardStates are states of members and observers in which Close has to end them.
func shardStates() map[string]closeCase {
	runs := func(f *fixture, g *shards.Group) <-chan error {
		return f.later(func() error {
			return g.Run(context.Background(), func(ctx context.Context, _ shards.Shard) error {
				<-ctx.Done()
				return nil
			})
		})
	}
	watches := func(f *fixture, g *shards.Group) <-chan error {
		return f.later(func() (last error) {
			for _, last = range g.Watch(context.Background()) {
			}
			return last
		})
	}
	states := make(map[string]closeCase)
	for name, after := range map[string]time.Duration{"Joins": 0, "Owns": 4 * time.Second} {
		for fault, cause := range map[string]func(*wire){
			"": func(*wire) {}, "Frozen": (*wire).goSilent, "Unreachable": func(w *wire) {
				w.refuses.Store(true)
				w.cut()
			},
		} {
			states["Shards"+name+fault] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
				if after == 0 {
					cause(link)
				}
				g := shards.New(s, "a", shards.Count(3))
				all := []<-chan error{runs(f, g), watches(f, g)}
				time.Sleep(after)
				cause(link)
				return all
			}
		}
	}
	return states
}
