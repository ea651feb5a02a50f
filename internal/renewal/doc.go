// SPDX-License-Identifier: Apache-2.0

// Package renewal keeps leases alive on the server, and ends them here when they can no
// longer be trusted.
//
// # Guarantees
//
//  1. A term ends locally before its key can end on the server: its deadline counts from the
//     moment before the acquire or renewal was sent, less an allowance (see clock.Allowance).
//  2. Alive compares the clock itself: the first look after a stopped process, a suspended
//     host or a frozen server tells, whatever has become of the timers.
//  3. A term that has ended stays ended: a late answer revives nothing.
//  4. After Stop no renewal of the term is sent. One that is on its way finds its hold gone,
//     because the script touches its own hold only and creates nothing.
//  5. One bad key fails one term, not its batch.
//
// # States
//
//	          due, batch sent                    answered: alive
//	Resting ------------------> Renewing ---------------------------> Resting
//	   |                           | failed or unanswered: again after a twelfth of what it has
//	   |                           +----------------------------------> Resting
//	   |                           | answered: gone
//	   | deadline                  v
//	   +-----------------------> Ended <--- deadline --- Renewing
//	   |                           ^
//	   +---------- Stop -----------+
//
// Recheck sends a term from Resting to Renewing at once, with a question instead of a renewal: an
// answer other than gone leaves the deadline and the next renewal as they were.
//
// # Time
//
//	deadline = sent + life - clock.Allowance(life)
//	due      = sent + life/3, rounded down to a fiftieth of life/3; the first one with a life, or a
//	           longer one, anywhere in the last half of it, so that locks taken at once are not
//	           renewed at once
//
// life is what the server gave last. A term begins with its first lease, or with what its grant gives,
// and counts with that until its first renewal is answered.
//
// The rounding makes terms of one length fall due together: a tick's worth is one batch of up to
// 256 keys a script (one in a cluster, where a slot on the move refuses more).
//
// # Ownership
//
// A term has one entry on the wheel, which stands for the next thing to happen: renewal,
// retry or deadline. It fires on the driver's goroutine; batches are sent on goroutines
// that exist for one batch. The lock of a term is held for field access alone: neither the
// owner nor the server is called under it.
package renewal
