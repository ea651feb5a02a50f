// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// bench is one run.
type bench struct {
	server *redistest.Server
	scale  scale
	chosen []implementation
	addrs  []string     // the addresses of several servers, for locks over a quorum
	empty  func() error // empties them; nil if there is one
}

// work is one thing that is measured.
type work struct {
	name string
	run  func(*bench) ([]table, error)
}

func works() []work {
	return []work{
		{"uncontended", uncontended},
		{"uncontended-kinds", uncontendedKinds},
		{"instructions", instructions},
		{"enter-again", enterAgain},
		{"several", several},
		{"one-process", oneProcess},
		{"processes", processes},
		{"grid", grid},
		{"restart", restart},
		{"handoff", handOff},
		{"crowd", crowd},
		{"queued", queued},
		{"permits", permitsWork},
		{"permits-out", permitsOut},
		{"held", held},
		{"outage", outage},
		{"waiters", waiters},
		{"latch", latch},
		{"remote", remote},
		{"quorum", quorum},
		{"read", read},
		{"read-release", readRelease},
		{"drain", drain},
		{"shards", shardsWork},
		{"java", across},
	}
}

// sample is what one implementation did in one round.
type sample struct {
	ops         int
	elapsed     time.Duration
	used        usage
	waits       *waits
	cutWaits    *waits // the waits of goroutines that were given up, until then; nil if the work gives up no goroutine
	least, most int    // operations of the goroutine that had the fewest and the most
	stuck       int64  // goroutines that were left waiting for a free lock
	figures     map[string]float64
}

// series is what one implementation did in all rounds.
type series struct {
	impl    implementation
	samples []sample
}

// interleave measures the implementations in turns, so that what changes about the machine
// meanwhile changes for all of them. Each round begins with another one.
func (b *bench) interleave(impls []implementation, rounds int, measure func(implementation) (sample, error)) ([]series, error) {
	all := make([]series, len(impls))
	for i, impl := range impls {
		all[i].impl = impl
	}
	for round := range rounds {
		for i := range impls {
			s := &all[(i+round)%len(impls)]
			if err := b.clear(); err != nil {
				return nil, err
			}
			one, err := measure(s.impl)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.impl.name, err)
			}
			s.samples = append(s.samples, one)
		}
	}
	return all, nil
}

// clear removes what one implementation left behind, so that the next does not pay for it.
func (b *bench) clear() error {
	defer runtime.GC()
	if b.empty != nil {
		return b.empty()
	}
	_, err := b.server.Do("FLUSHALL")
	return err
}

// start returns n processes of impl and how to end them.
func (b *bench) start(impl implementation, n int, set setup) ([]process, func() error, error) {
	set.addr, set.addrs = b.server.Addr(), b.addrs
	if set.lease == 0 {
		set.lease = b.scale.lease
	}
	var all []process
	end := func() error {
		var errs []error
		for _, p := range all {
			errs = append(errs, p.close())
		}
		return errors.Join(errs...)
	}
	for range n {
		p, err := impl.start(set)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		all = append(all, p)
	}
	return all, end, nil
}

// numbered returns a name of its own for each i.
func numbered(prefix string, i int) string { return prefix + strconv.Itoa(i) }
