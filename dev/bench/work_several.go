// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// eight is how many locks the work acquires as one.
const eight = 8

// several is eight locks as one beside one lock, on one server and in a cluster.
func several(b *bench) ([]table, error) {
	if len(only(b.chosen, ownName)) == 0 {
		return nil, nil
	}
	single, err := b.several(anyNames())
	if err != nil {
		return nil, err
	}
	cluster, err := redistest.RunCluster()
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	town := &bench{server: cluster.Servers()[0], scale: b.scale, chosen: b.chosen}
	one, apart, err := slotted(town.server.Addr())
	if err != nil {
		return nil, err
	}
	sameSlot, err := town.several(one)
	if err != nil {
		return nil, err
	}
	slots, err := town.several(apart)
	return []table{
		severalTable("Several locks as one, one server", single),
		severalTable("Several locks as one, a cluster, names of one slot", sameSlot),
		severalTable("Several locks as one, a cluster, names of different slots", slots),
	}, err
}

func severalTable(title string, all []series) table {
	toFirst := func(all []series, s series) string { return share(all[0].ratio(s, rate)) }
	columns := []column{{"ops/s", medianOf(rate, number)}, {"times one lock", toFirst}}
	return tabulate(title, "One goroutine acquires and releases in a loop.", all, append(columns, waitColumns("lock p50")...))
}

// several measures one lock, eight as one, eight one after the other, and eight fair ones as one.
func (b *bench) several(set []string) ([]series, error) {
	ways := map[string]func(p *signalboxProcess) locker{
		"one lock":               func(p *signalboxProcess) locker { return p.locker(context.Background(), set[0]) },
		"8 as one":               func(p *signalboxProcess) locker { return p.together(set, newReentrant) },
		"8, one after the other": func(p *signalboxProcess) locker { return p.inTurn(set) },
		"8 fair as one":          func(p *signalboxProcess) locker { return p.together(set, newFair) },
	}
	order := []string{"one lock", "8 as one", "8, one after the other", "8 fair as one"}
	impls := make([]implementation, len(order))
	for i, name := range order {
		impls[i] = signalboxLock()
		impls[i].name = name
	}
	return b.interleave(impls, b.scale.rounds, func(impl implementation) (sample, error) {
		return b.closedLoop(impl, topology{1, 1, func(_ context.Context, p process, _ int) locker {
			return ways[impl.name](p.(*signalboxProcess)) //nolint:errcheck,forcetypeassert // all of them are ours
		}}, b.scale.window)
	})
}

func newReentrant(s *signalbox.Session, name string) multilock.Member { return reentrant.New(s, name) }
func newFair(s *signalbox.Session, name string) multilock.Member      { return fair.New(s, name) }

// together returns a locker of the names as one.
func (p *signalboxProcess) together(set []string, kind func(*signalbox.Session, string) multilock.Member) locker {
	members := make([]multilock.Member, len(set))
	for i, name := range set {
		members[i] = kind(p.session, name)
	}
	all := multilock.New(members...)
	l := &signalboxLocker{lock: func() ownLock { return all }}
	l.unlock = func() error { return l.lease.Unlock() }
	return l
}

// inTurn returns a locker that acquires the names one after the other.
func (p *signalboxProcess) inTurn(set []string) locker {
	all := make(lockersInTurn, len(set))
	for i, name := range set {
		all[i] = p.locker(context.Background(), name)
	}
	return all
}

type lockersInTurn []locker

// Lock implements locker.
func (l lockersInTurn) Lock(ctx context.Context) (unlock func() error, err error) {
	var unlocks []func() error
	unlock = func() error {
		var failed error
		for _, one := range slices.Backward(unlocks) {
			failed = errors.Join(failed, one())
		}
		return failed
	}
	for _, one := range l {
		release, err := one.Lock(ctx)
		if err != nil {
			return nil, errors.Join(err, unlock())
		}
		unlocks = append(unlocks, release)
	}
	return unlock, nil
}

func anyNames() []string {
	set := make([]string, eight)
	for i := range set {
		set[i] = numbered("several/", i)
	}
	return set
}

// slotted searches for names whose keys are in one slot, and for as many that are each in another.
func slotted(addr string) (one, apart []string, err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	slots := make(map[uint16]bool)
	var wanted uint16
	for i := 0; len(one) < eight || len(apart) < eight; i++ {
		name := numbered("several/", i)
		set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
		if err != nil {
			return nil, nil, err
		}
		command := client.B().Get().Key(set.Holder).Build()
		slot := command.Slot() % redistest.Slots
		if i == 0 {
			wanted = slot
		}
		if slot == wanted && len(one) < eight {
			one = append(one, name)
		}
		if !slots[slot] && len(apart) < eight {
			apart, slots[slot] = append(apart, name), true
		}
	}
	return one, apart, nil
}
