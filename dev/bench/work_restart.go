// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

const (
	restartLease   = 3 * time.Second
	restartSection = 5 * time.Millisecond

	// A process that waits for longer than a lease and any pause between two tries waits for a lock that is free.
	restartPatience = 2 * restartLease
)

// restart is a rolling restart: processes of the system that want one lock, one of which ends in each interval and is
// started anew.
func restart(b *bench) ([]table, error) {
	all, err := b.interleave(only(b.chosen, ownName, fairName, "rueidislock", "redislock"), 1, b.restarting)
	title := fmt.Sprintf("A rolling restart of %d processes", b.scale.restarted)
	note := fmt.Sprintf("Processes of the system, one goroutine each, want one lock and hold it for %v; the lease is %v. One of them "+
		"ends every %v and is started anew, by turns killed (SIGKILL) and terminated (SIGTERM, upon which it releases the lock and "+
		"closes its client). The one in the middle is killed when it has just acquired the lock, the others at any time. Waits are "+
		"those of the other processes. A gap is a time in which no process acquires the lock.",
		restartSection, restartLease, b.scale.restartEvery) + leftWaiting(all)
	columns := append([]column{{"ops/s", medianOf(rate, number)}}, waitColumns("wait p50")...)
	columns = append(columns,
		column{"longest gap", medianOf(named("gap"), span)},
		column{fmt.Sprintf("gaps over %v", stall), medianOf(named("stalls"), number)},
		column{"requests/op", medianOf(per(requests), number)},
		column{"commands/op", medianOf(per(commands), number)},
	)
	return []table{tabulate(title, note, all, columns)}, err
}

func (b *bench) restarting(impl implementation) (sample, error) {
	f := newFleet(impl, b.server.Addr(), b.scale.restarted)
	defer f.close()
	if err := f.start(); err != nil {
		return sample{}, err
	}
	m, err := begin(b.server)
	if err != nil {
		return sample{}, err
	}
	f.log.reset()
	began := time.Now()
	if err := f.roll(b.scale.restartEvery); err != nil {
		return sample{}, err
	}
	one := sample{ops: f.log.count(), elapsed: time.Since(began)}
	if one.used, err = m.end(impl.sends); err != nil {
		return sample{}, err
	}
	if one.stuck, err = f.finish(restartPatience); err != nil {
		return sample{}, err
	}
	all, gap, stalls := f.log.totals()
	one.waits = all
	one.figures = map[string]float64{"gap": gap.Seconds(), "stalls": float64(stalls)}
	return one, nil
}

// roll ends one process after the other, one each interval, and starts it anew.
func (f *fleet) roll(every time.Duration) error {
	next := time.NewTicker(every)
	defer next.Stop()
	middle := len(f.members) / 4 * 2
	for i, old := range f.members {
		<-next.C
		if i == middle {
			old = f.log.nextHolder(old)
		}
		if i%2 == 1 {
			if err := old.terminate(); err != nil {
				return err
			}
		}
		old.process.Close() // kills it if it has not ended
		<-old.ended
		var err error
		if f.members[slices.Index(f.members, old)], err = f.member(); err != nil {
			return err
		}
	}
	return nil
}

// terminate lets a process release the lock, close its client, and end.
func (m *member) terminate() error {
	select {
	case <-m.ready: // it handles the signal
	case <-m.ended:
	}
	if err := syscall.Kill(m.process.PID(), syscall.SIGTERM); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	<-m.ended
	return m.result()
}
