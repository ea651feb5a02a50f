// SPDX-License-Identifier: Apache-2.0

package queue

// The calls to the server that concern an attempt are made of parts: the arguments, the sending, and what the reply, or its absence,
// means for the attempt. The parts of a call are methods of its exchange. An exchange is a value around the attempt, made where it is
// used; it has no state of its own.
type (
	// enterExchange asks for the lock, as long as the attempt has no ticket.
	enterExchange struct{ *Attempt }
	// leaveExchange gives up what the attempt has: its hold, or its ticket.
	leaveExchange struct{ *Attempt }
	// requeueExchange releases the hold of another attempt, and joins the queue.
	requeueExchange struct{ *Attempt }
	// swapExchange replaces the hold of another attempt.
	swapExchange struct{ *Attempt }
	// yieldExchange asks whether the hold may be handed over inside the process.
	yieldExchange struct{ *Attempt }
)

// idleHold is what becomes of a granted attempt whose hold no goroutine uses.
type idleHold struct{ *Attempt }
