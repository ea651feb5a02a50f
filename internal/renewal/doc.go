// SPDX-License-Identifier: Apache-2.0

// Package renewal keeps leases alive on the server, and ends them in the process when they can no longer be
// trusted.
//
// # Guarantees
//
//  1. A term ends locally before its key can end on the server: its deadline counts from the
//     moment before the acquire or renewal was sent, less an allowance (see clock.Allowance).
//  2. Alive compares the clock itself: its first call after a stopped process, a suspended host or
//     a frozen server finds the loss, whatever the state of the timers. A term ends by itself within
//     half a second after a suspended host resumes, because package timers counts that time.
//  3. A term that has ended stays ended: a late reply revives nothing.
//  4. After Stop no renewal of the term is sent. One that is on its way finds its hold gone,
//     because the script touches its own hold only and creates nothing.
//  5. One bad key fails one term, not its batch. A term does not end because a script with keys of several
//     slots says that its hold is gone: the server is asked again for that hold alone.
//
// # States
//
//	          due, batch sent                    reply: alive
//	idle --------------------> renewing ---------------------------> idle
//	  |                           | failed, or no reply: again after a twelfth of the life
//	  |                           +----------------------------------> idle
//	  |                           | reply: gone
//	  | deadline                  v
//	  +-----------------------> ended <--- deadline --- renewing
//	  |                           ^
//	  +---------- Stop -----------+
//
// Recheck sends a term from idle to renewing at once, with a question instead of a renewal: a reply other
// than gone leaves the deadline and the next renewal as they were.
//
// # Time
//
//	deadline = sent + life - clock.Allowance(life)
//	due      = sent + life/3, rounded down to a fiftieth of life/3; the first renewal with a life, or with
//	           a longer one, anywhere in the last half of life/3, so that locks acquired at once are not
//	           renewed at once
//
// due is reached as soon as either clock says so, like the deadline: after a host was suspended, little may be left.
//
// life is what the server granted last. A term begins with its first lease, or with what its grant gives, and
// counts with that until its first renewal has a reply.
//
// The rounding makes terms of one length fall due together: the terms of one tick are one batch of up to 256
// keys a script. It is one key a script in a cluster, and wherever scripts may not have keys of several slots.
//
// # Ownership
//
// A term has one timer, for its next event: renewal, retry or deadline. It fires on the driver's
// goroutine; batches are sent on goroutines that exist for one batch. The lock of a term is held for field
// access only: neither the owner nor the server is called under it.
package renewal
