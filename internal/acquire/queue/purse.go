// SPDX-License-Identifier: Apache-2.0

package queue

import "sync/atomic"

// purse says when the shorter of two ways is worth a try: the short release in place of a leave, or the plain acquire in place of an
// enter. A try that finds another value in the key than it needs is a miss: it costs a round trip more, and the longer way
// follows. A hit pays in hitPay. The longer way pays in 1 if the shorter one would have been a hit, as far as its reply says.
// A miss takes missCost, and a try needs as much. So at most one call in 16 is a miss, in whatever order they come, and none
// before the session has made missCost calls that the shorter way would have served.
type purse struct{ paid atomic.Int32 }

const hitPay, missCost, maxPaid = 2, 32, 4 * 32

// allows reports whether the next call may try. Several tries at once may all be misses: the purse is below zero then, and
// that is paid in before the next try.
func (p *purse) allows() bool { return p.paid.Load() >= missCost }

// pay pays n in, or takes it if n is negative.
func (p *purse) pay(n int32) {
	if n < 0 || p.paid.Load() < maxPaid {
		p.paid.Add(n)
	}
}
