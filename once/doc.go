// SPDX-License-Identifier: Apache-2.0

// Package once runs a function once for each key and period over all processes, and returns its stored
// outcome to every caller.
//
//	report := once.New(session, "report/2026-11-22", once.Keep(24*time.Hour))
//	value, ran, err := report.Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
//		return makeReport(ctx)
//	})
//
// A lock around a job does not do this: a process that comes late finds the lock free and runs the job
// again. For a job on a schedule, pass the time of the tick: job.At(tick).Do(ctx, fn).
//
// # Guarantees
//
//  1. At most one outcome is stored for a key until Keep is over, Forget deletes it, or the server
//     loses it. Every Do that returns without an error returns that outcome.
//  2. No two functions of a key run at the same time, while each stops when its lease ends and the
//     server keeps its hold until then.
//  3. A function that failed, panicked or lost its process leaves no outcome. The next caller runs its
//     function: at once after an error, and when the lease ends after a crash.
//  4. A function whose lease was lost stores nothing if another call has acquired the lock since: Do
//     returns ErrStale, and the outcome of the other call if there is one.
//  5. A call that finds the outcome stored costs one round trip and takes no lock.
//  6. Callers of one session share a ticket in the queue. A caller that waits has no goroutine and no
//     timer of its own.
//
// # Not promised
//
//   - That a function runs at most once. If its process dies after the work and before the outcome is
//     stored, the next caller runs it again. Make it safe to repeat, or use the token of its lease.
//   - Outcomes that the server lost, in a failover or an eviction: the function runs again.
//     signalbox.WithReplicas makes the loss rarer.
//   - An order between callers of one process and another: the lock's queue decides.
//   - Secrecy: every reader of the server can read the value.
//
// # Time
//
// The lock has a short lease that is renewed while the function runs: 30 s unless
// signalbox.WithRenewedLease says otherwise, from the start unless signalbox.WithFirstLease sets less. The
// outcome has a long life, Keep, that begins when it is stored, by the server's clock. No clock of a
// client matters.
//
// # Cost
//
//	Do, stored            1 round trip
//	Do that runs          5, and what the function takes
//	Do that waits         5 and a message for the first caller of a session, 1 for the others
//	Get                   1
//	Forget                2
//
// The server keeps about (110 + len(prefix) + len(key) + len(value)) bytes for each outcome until Keep is
// over, and those of the lock for a minute; see package fair.
//
// The lock is the fair lock of the same name: fair.New(session, key).Holder returns the caller that runs the
// function, and ForceUnlock lets another caller run it. A caller that holds that lock, or a reentrant
// one of that name, waits for itself.
//
// docs/internals/once.md has the states, the failures and the keys.
package once
