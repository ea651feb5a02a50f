// SPDX-License-Identifier: Apache-2.0

package queue

// attemptState is the state of an attempt. An attempt that only tries begins as trying, one that waits as entering. These
// are all its steps; a batch and a swap that replied "you have it" begin the hold at once. The models have the same states.
//
//	trying     -> granted     the enter replied that the attempt has the lock
//	trying     -> begun       a batch or a swap replied that it has the lock
//	trying     -> over        the lock is not to be had, or the call failed
//	entering   -> queued      the enter replied that it has a ticket; or it may have the lock, which a poll finds out
//	entering   -> granted     the enter replied that it has the lock, or a message granted it
//	entering   -> over        its context ended, or the server refused
//	queued     -> granted     a message or a poll granted it
//	queued     -> ticketLost  a poll found no ticket
//	queued     -> over        its context ended, or the server refused
//	queued     -> withdrawn   Close ended it, and repeats its leave
//	granted    -> queued      the grant expired before the hold began: a poll finds out whether there is a hold
//	granted    -> begun       its goroutine has the grant, even if its context ended in the same instant
//	ticketLost -> over        a new attempt follows
//	begun      -> over        the lock was released, replaced or lost
type attemptState uint8

const (
	trying attemptState = iota
	entering
	queued
	granted
	begun
	ticketLost
	over
	withdrawn
	stateCount
)

// nextStates has the states to which each state leads, as bits.
//
//nolint:gochecknoglobals // a constant table
var nextStates = [stateCount]uint16{
	trying:     1<<granted | 1<<begun | 1<<over,
	entering:   1<<queued | 1<<granted | 1<<over,
	queued:     1<<granted | 1<<ticketLost | 1<<over | 1<<withdrawn,
	granted:    1<<queued | 1<<begun,
	ticketLost: 1 << over,
	begun:      1 << over,
	over:       0,
	withdrawn:  0,
}

// leadsTo reports whether an attempt in state s may be in state next after one step.
func (s attemptState) leadsTo(next attemptState) bool { return nextStates[s]&(1<<next) != 0 }

// isEnded reports whether nothing comes after s.
func (s attemptState) isEnded() bool { return nextStates[s] == 0 }

// refuseStep is called with a step that the table does not have. Tests make it panic.
//
//nolint:gochecknoglobals // set by tests alone
var refuseStep = func(from, next attemptState) {}

// toLocked makes one step.
func (a *Attempt) toLocked(next attemptState) {
	if !a.state.leadsTo(next) {
		refuseStep(a.state, next)
	}
	if a.state == queued {
		a.q.queued--
	}
	if a.state = next; next == queued {
		a.waitLocked() // by the goroutine that waits: it sent the enter or the requeue, or found that its grant has expired
		a.q.initWaitLocked()
		a.q.queued++
	}
}
