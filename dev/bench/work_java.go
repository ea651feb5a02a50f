// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// across compares the locks with those of Redisson, which a process in Java uses: what an uncontended one costs,
// how soon another process has it, what it costs to hold many, and what it costs that one of many readers leaves.
func across(b *bench) ([]table, error) {
	has, err := hasJava()
	if err != nil {
		return nil, err
	}
	if !has {
		return []table{{
			title: "Go and Java", note: "Left out: the Java side is not built, make interop builds it.",
		}}, nil
	}
	locks, err := b.acrossLocks()
	if err != nil {
		return nil, err
	}
	readers, err := b.acrossReaders()
	return []table{locks, readers}, err
}

// acrossLocks is the table of what a lock costs.
func (b *bench) acrossLocks() (t table, err error) {
	all := pairings()
	j, err := startJava(b.server.Addr(), b.scale.lease)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	if err := b.warmJava(j, all); err != nil {
		return t, err
	}
	alone, err := b.interleave(implementationsOf(all), b.scale.rounds, func(impl implementation) (sample, error) {
		if kind := kindOf(all, impl); kind != "" {
			return b.javaLoop(j, kind)
		}
		return b.closedLoop(impl, oneName(), b.scale.window)
	})
	if err != nil {
		return t, err
	}
	passed, err := b.interleave(implementationsOf(all), b.scale.rounds, func(impl implementation) (sample, error) {
		switch p := pairingOf(all, impl); {
		case p.isReader():
			return sample{waits: new(waits)}, nil
		case p.kind != "":
			return b.javaPasses(j, p.kind)
		}
		return b.passesToTheEnd(impl)
	})
	if err != nil {
		return t, err
	}
	kept, err := b.acrossHeld(all)
	if err != nil {
		return t, err
	}
	title := "Go and Java: signalbox and " + redissonVersion()
	note := fmt.Sprintf("Loops run in Java, after %v of warm-up for each kind. Uncontended: one goroutine or thread, one name. Hand-off: two clients, "+
		"from the call of Unlock by one to the return of Lock in the other, which has waited for %v to %v. Held: %s locks for %v, lease %v, renewed each third of it.",
		b.scale.javaWarmUp, leastWait, leastWait+spreadWait, number(float64(b.scale.javaHeld)), b.scale.javaHeldFor, b.scale.javaLease)
	return tabulate(title, note, alone, acrossColumns(passed, kept)), nil
}

// warmJava runs all that is measured until the compiler of Java has seen it.
func (b *bench) warmJava(j *java, all []javaPairing) error {
	for _, p := range all {
		if p.kind == "" {
			continue
		}
		if _, err := j.do("bench-loop", p.kind, "warm", b.scale.javaWarmUp.Milliseconds()); err != nil {
			return err
		}
		if p.isReader() {
			continue
		}
		if _, err := j.javaPass(p.kind, b.scale.javaWarmUp/2); err != nil {
			return err
		}
	}
	return nil
}

func acrossColumns(passed, kept []series) []column {
	wait := func(q float64) func([]series, series) string {
		return func(_ []series, s series) string {
			if other, ok := find(passed, s.impl.name); ok && other.waits().n > 0 {
				return span(other.waits().quantile(q).Seconds())
			}
			return none
		}
	}
	perLock := func(f figure, format func(float64) string) func([]series, series) string {
		return func(_ []series, s series) string {
			other, ok := find(kept, s.impl.name)
			if !ok {
				return none
			}
			return format(other.median(func(one sample) float64 { return f(one) / one.elapsed.Seconds() / one.figures["locks"] }))
		}
	}
	return []column{
		{"ops/s", medianOf(rate, number)},
		{"requests/op", medianOf(per(requests), number)},
		{"commands/op", medianOf(per(commands), number)},
		{"server CPU/op", medianOf(per(serverCPU), span)},
		{"hand-off p50", wait(0.5)},
		{"p99", wait(0.99)},
		{"held: requests/lock·s", perLock(requests, number)},
		{"commands/lock·s", perLock(commands, number)},
		{"server CPU/lock·s", perLock(serverCPU, span)},
	}
}

// javaLoop is closedLoop in Java.
func (b *bench) javaLoop(j *java, kind string) (sample, error) {
	if _, err := j.do("bench-loop", kind, "again", b.scale.warmUp.Milliseconds()); err != nil {
		return sample{}, err
	}
	m, err := begin(b.server)
	if err != nil {
		return sample{}, err
	}
	reply, err := j.numbers("bench-loop", kind, "again", b.scale.window.Milliseconds())
	if err != nil {
		return sample{}, err
	}
	if len(reply) != 2 {
		return sample{}, fmt.Errorf("java: %v", reply)
	}
	one := sample{ops: int(reply[0]), elapsed: time.Duration(reply[1]), waits: new(waits)}
	one.used, err = m.end(nil)
	// Behind the script of each unlock goes a DEL, which cannot be separated from those that scripts call.
	one.used.requests += int64(one.ops)
	return one, err
}

// javaPasses is passes in Java.
func (b *bench) javaPasses(j *java, kind string) (sample, error) {
	if _, err := j.javaPass(kind, b.scale.warmUp); err != nil {
		return sample{}, err
	}
	took, err := j.javaPass(kind, b.scale.window)
	one := sample{ops: len(took), elapsed: b.scale.window, waits: new(waits)}
	for _, ns := range took {
		one.waits.add(time.Duration(ns))
	}
	return one, err
}

// javaPass lets two clients hand a lock to and fro, and returns the nanoseconds that each hand-off took.
func (j *java) javaPass(kind string, window time.Duration) ([]int64, error) {
	return j.numbers("bench-pass", kind, "handoff", window.Milliseconds(), leastWait.Microseconds(), spreadWait.Microseconds())
}

// acrossHeld measures what it costs to hold many locks, once: it is long enough in itself. Readers are left out: those of
// a process share a hold here, and none there.
func (b *bench) acrossHeld(all []javaPairing) (kept []series, err error) {
	j, err := startJava(b.server.Addr(), b.scale.javaLease)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	few := *b
	few.scale.held, few.scale.heldLease, few.scale.heldFor = b.scale.javaHeld, b.scale.javaLease, b.scale.javaHeldFor
	for _, p := range all {
		if p.isReader() {
			continue
		}
		if err := b.clear(); err != nil {
			return nil, err
		}
		var one sample
		if p.kind == "" {
			one, err = few.hold(p.implementation)
		} else {
			one, err = few.javaHold(j, p.kind)
		}
		if err == nil && one.figures["lost"] > 0 {
			err = fmt.Errorf("%v locks were lost", one.figures["lost"])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		one.figures["locks"] = float64(few.scale.held)
		kept = append(kept, series{p.implementation, []sample{one}})
	}
	return kept, nil
}

// javaHold is hold in Java.
func (b *bench) javaHold(j *java, kind string) (one sample, err error) {
	if _, err := j.do("bench-hold", kind, "held/", b.scale.held); err != nil {
		return sample{}, err
	}
	m, err := begin(b.server)
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	pause(context.Background(), b.scale.heldFor)
	one.elapsed = time.Since(began)
	if one.used, err = m.end(nil); err != nil {
		return sample{}, err
	}
	there, err := j.numbers("bench-drop", kind, "held/", b.scale.held)
	if err != nil {
		return sample{}, err
	}
	one.figures = map[string]float64{"lost": float64(int64(b.scale.held) - there[0])}
	return one, nil
}

// acrossReaders is the table of what it costs that one of many readers leaves.
func (b *bench) acrossReaders() (t table, err error) {
	j, err := startJava(b.server.Addr(), b.scale.lease)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	t = table{
		title: "Go and Java: the server's time for a reader's release, by readers",
		note: fmt.Sprintf("The server's time in scripts for the release of one reader, by its own statistics, while so many others read. %d release one after the other.",
			b.scale.javaReleases),
		header: []string{"readers", "signalbox", redissonVersion(), "ratio"},
	}
	few := *b
	few.scale.releases = b.scale.javaReleases
	for _, n := range []int{1, b.scale.readers / 10, b.scale.readers} {
		own, err := few.releaseBeside(n)
		if err != nil {
			return t, err
		}
		their, err := few.javaReleaseBeside(j, n)
		if err != nil {
			return t, err
		}
		t.rows = append(t.rows, []string{number(float64(n)), span(own), span(their), share(their / own)})
	}
	return t, nil
}

// javaReleaseBeside is releaseBeside in Java.
func (b *bench) javaReleaseBeside(j *java, n int) (each float64, err error) {
	if err := b.clear(); err != nil {
		return 0, err
	}
	const first = 1_000_000 // the number of the first reader: none of the threads that there are
	if _, err := j.do("bench-read", "read", "read", first, n+b.scale.releases); err != nil {
		return 0, err
	}
	before := b.server.CommandStats()
	if _, err := j.do("bench-leave", "read", "read", first+n, b.scale.releases); err != nil {
		return 0, err
	}
	return scriptTime(before, b.server.CommandStats()).Seconds() / float64(b.scale.releases), nil
}

func pairingOf(all []javaPairing, impl implementation) javaPairing {
	for _, p := range all {
		if p.name == impl.name {
			return p
		}
	}
	return javaPairing{implementation: impl}
}

func kindOf(all []javaPairing, impl implementation) string { return pairingOf(all, impl).kind }
