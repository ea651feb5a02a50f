// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// scale is how much is measured.
type scale struct {
	candidates       int
	rounds, handOffs int           // the rounds, and the hand-offs of a round
	crashes, atOnce  int           // rounds, and elections that lose their leaders in each
	crashLease       time.Duration // etcd's are whole seconds, from 2 on
	idleLease, idle  time.Duration
}

// leading is a term of a member.
type leading struct {
	member member
	resign func() error
	err    error
}

// handOffs is what was measured of a side.
type handOffs struct {
	took     []time.Duration // the times from a call of Resign until the next member leads
	calls    []time.Duration // a call of Leader
	requests int64
}

// handOff measures a round.
func (s *side) handOff(c scale, to *handOffs) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	led := make(chan leading)
	var campaigns sync.WaitGroup
	defer campaigns.Wait()
	defer cancel()
	campaign := func(m member) {
		campaigns.Go(func() {
			resign, err := m.campaign(ctx, "a")
			select {
			case led <- leading{m, resign, err}:
			case <-ctx.Done():
			}
		})
	}
	for range c.candidates {
		m, err := join(s.join, c.idleLease)
		if err != nil {
			return err
		}
		defer m.close() //nolint:errcheck // measured by now
		defer cancel()
		campaign(m)
	}
	now := <-led
	for range c.candidates { // the first of each
		if err := s.next(&now, led, campaign, new(handOffs)); err != nil {
			return err
		}
	}
	before, err := s.requests()
	if err != nil {
		return err
	}
	for range c.handOffs {
		if err := s.next(&now, led, campaign, to); err != nil {
			return err
		}
	}
	after, err := s.requests()
	if err != nil {
		return err
	}
	to.requests += after.requests - before.requests
	for range c.handOffs {
		began := time.Now()
		if err := now.member.leader(ctx, "a"); err != nil {
			return fmt.Errorf("leader: %w", err)
		}
		to.calls = append(to.calls, time.Since(began))
	}
	return now.resign()
}

// next lets the leader resign and campaign again, and measures when the next one leads.
func (*side) next(now *leading, led <-chan leading, campaign func(member), to *handOffs) error {
	if now.err != nil {
		return fmt.Errorf("campaign: %w", now.err)
	}
	rest() // the last one is in the queue again
	resigned := make(chan error, 1)
	resign := now.resign
	began := time.Now()
	go func() { resigned <- resign() }()
	next := <-led
	to.took = append(to.took, time.Since(began))
	if err := <-resigned; err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	campaign(now.member)
	*now = next
	return nil
}

// rest lets a candidate reach the queue. etcd notifies a watch up to 100 ms late if it began less than 100 ms before, and
// that is not what is measured.
func rest() { pause(110*time.Millisecond + rand.N(10*time.Millisecond)) }

func pause(d time.Duration) { <-time.NewTimer(d).C }

const joinEnv, leaseEnv, nameEnv = "JOIN", "LEASE", "NAME"

// runLeader is a process that leads until it is killed.
func runLeader(_ io.Reader, stdout io.Writer) {
	lease, err := time.ParseDuration(os.Getenv(leaseEnv))
	if err == nil {
		var m member
		if m, err = join(os.Getenv(joinEnv), lease); err == nil {
			_, err = m.campaign(context.Background(), os.Getenv(nameEnv))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.WriteString(stdout, "leads\n") // or the parent is gone
	select {}
}

// crashes measures how long the death of a leader takes to the next one, in several elections.
func (s *side) crashes(c scale) (took []time.Duration, err error) {
	results := make(chan time.Duration)
	failed := make(chan error)
	for round := range c.crashes {
		for i := range c.atOnce {
			go func() {
				took, err := s.crash(c.crashLease, strconv.Itoa(round)+"/"+strconv.Itoa(i))
				if err != nil {
					failed <- err
					return
				}
				results <- took
			}()
		}
		for range c.atOnce {
			select {
			case d := <-results:
				took = append(took, d)
			case e := <-failed:
				err = e
			}
		}
	}
	return took, err
}

// crash kills the leader of an election after a random time, and returns how long it takes until the candidate leads.
func (s *side) crash(lease time.Duration, name string) (time.Duration, error) {
	leader, err := redistest.StartChild("leader", joinEnv+"="+s.join, leaseEnv+"="+lease.String(), nameEnv+"="+name)
	if err != nil {
		return 0, err
	}
	defer leader.Close()
	if _, err := leader.ReadLine(patience); err != nil {
		return 0, fmt.Errorf("the leader: %w: %s", err, leader.Stderr())
	}
	m, err := join(s.join, lease)
	if err != nil {
		return 0, err
	}
	defer m.close() //nolint:errcheck // measured by now
	ctx, cancel := context.WithTimeout(context.Background(), patience+2*lease)
	defer cancel()
	led := make(chan leading, 1)
	go func() {
		resign, err := m.campaign(ctx, name)
		led <- leading{m, resign, err}
	}()
	pause(lease/2 + rand.N(lease)) // in whichever moment between two renewals
	began := time.Now()
	leader.Kill()
	term := <-led
	if term.err != nil {
		return 0, fmt.Errorf("campaign: %w", term.err)
	}
	return time.Since(began), term.resign()
}

// idle measures what an election with a leader alone costs a minute, what a candidate adds, and what an observer adds.
func (s *side) idle(c scale) (each [3]count, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	var last count
	for i, begin := range []func(m member) error{
		func(m member) error {
			_, err := m.campaign(ctx, "idle")
			return err
		},
		func(m member) error {
			others.Go(func() { _, _ = m.campaign(ctx, "idle") }) // until ctx ends
			return nil
		},
		func(m member) error {
			seen := make(chan struct{}, 1)
			others.Go(func() { m.observe(ctx, "idle", func() { seen <- struct{}{} }) })
			<-seen
			return nil
		},
	} {
		m, err := join(s.join, c.idleLease)
		if err != nil {
			return each, err
		}
		defer m.close() //nolint:errcheck // measured by now
		if err := begin(m); err != nil {
			return each, err
		}
		now, err := s.aMinute(c.idle)
		if err != nil {
			return each, err
		}
		each[i] = count{now.requests - last.requests, now.pings - last.pings}
		last = now
	}
	return each, nil
}

// aMinute returns what the server gets in a minute, as measured while d passes.
func (s *side) aMinute(d time.Duration) (count, error) {
	pause(2 * time.Second) // what a beginning costs
	before, err := s.requests()
	if err != nil {
		return count{}, err
	}
	pause(d)
	after, err := s.requests()
	times := int64(time.Minute / d)
	return count{(after.requests - before.requests) * times, (after.pings - before.pings) * times}, err
}

// quantile returns the value that the share q of all does not exceed.
func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
