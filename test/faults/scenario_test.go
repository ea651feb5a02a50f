// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// Requests that every kind of acquire is made of.
const (
	hello     = "session/hello"
	subscribe = "SUBSCRIBE"
)

// scenario is one way to acquire, and the steps it takes where nothing fails.
type scenario struct {
	name  string
	held  bool // somebody else holds the lock, and gives it back
	after int  // when that is: after the answer to this step
	try   bool
	cut   int             // the request after whose reply its connection is cut, in every trial; 0 is none
	deaf  bool            // messages are lost
	match redistest.Match // what is counted; nil for the scripts of an acquire
	loose bool            // the steps come in another order, or more of them, now and then
	steps []string
}

// takes reports whether these requests are the steps of the scenario.
func (s scenario) takes(seen []string) bool {
	if !s.loose {
		return slices.Equal(seen, s.steps)
	}
	if len(seen) < len(s.steps) {
		return false
	}
	first := slices.Sorted(slices.Values(seen[:len(s.steps)]))
	return slices.Equal(first, slices.Sorted(slices.Values(s.steps)))
}

// moment is when the context of a trial ends.
type moment int

const (
	never   moment = iota
	before         // as the request arrives at the proxy, before it is forwarded
	atFault        // when the fault strikes: for replies, when they arrive at the proxy
)

func (m moment) String() string { return [...]string{"never", "before", "atFault"}[m] }

// trial is one run of a scenario.
type trial struct {
	kind     kind
	scenario scenario
	step     int           // which request is struck, from 1
	life     time.Duration // of the lease
	faults   []redistest.Fault
	cancel   moment
}

func (t trial) String() string {
	return fmt.Sprintf("%s: %s, life %v, step %d, %v, cancelled %v", t.kind.Name, t.scenario.name, t.life, t.step, t.faults, t.cancel)
}

// strikes answers the faults for one step: every kind, delays also longer than the client
// waits for a silent connection, and longer than an acquire may take.
func strikes(step int, life time.Duration) []redistest.Fault {
	var faults []redistest.Fault
	for _, kind := range redistest.Kinds() {
		f := redistest.Fault{Kind: kind, At: step}
		if kind != redistest.DelayRequest && kind != redistest.DelayReply {
			faults = append(faults, f)
			continue
		}
		f.Delay = short
		faults = append(faults, f)
		f.Delay = long
		faults = append(faults, f)
		if life < patience {
			f.Delay = life + short
			faults = append(faults, f)
		}
	}
	return faults
}

// trials answers every trial of one of the scenarios with leases that last for life: each fault at each step with each moment of
// cancelling, cancelling without a fault, and faults that strike the undoing as well.
func (k kind) trials(s scenario, life time.Duration) []trial {
	var all []trial
	first := 1
	if s.cut > 0 {
		first = s.cut + 1 // what comes before is another scenario's
	}
	for step := first; step <= len(s.steps); step++ {
		all = append(all, trial{k, s, step, life, nil, before})
		for _, f := range strikes(step, life) {
			for _, when := range []moment{never, before, atFault} {
				all = append(all, trial{k, s, step, life, []redistest.Fault{f}, when})
			}
		}
		if s.steps[step-1] != k.acquire.Name {
			continue
		}
		// The outcome of the acquire is unknown, and the next request, which undoes it, fails too.
		lost := redistest.Fault{Kind: redistest.CutAfterRequest, At: step}
		for _, f := range strikes(step+1, life) {
			all = append(all, trial{k, s, step, life, []redistest.Fault{lost, f}, atFault})
		}
	}
	return all
}

// sample answers a part of the trials that has every scenario, step and kind of fault in it.
// Of those with short leases it has what needs them: an acquire that comes too late.
func sample(all []trial) []trial {
	return slices.DeleteFunc(slices.Clone(all), func(t trial) bool {
		switch {
		case len(t.faults) == 0:
			return t.life < patience
		case t.life < patience:
			return len(t.faults) > 1 || t.faults[0].Delay < t.life || t.cancel != atFault
		case len(t.faults) == 2:
			return t.scenario.held || t.faults[1].Delay == short
		}
		late := t.scenario.cut > 0 && t.step < len(t.scenario.steps)
		return t.cancel == before || late && t.cancel == never
	})
}
