// SPDX-License-Identifier: Apache-2.0

// Package once runs a function for a key, stores its outcome for a time (Keep), and returns that to
// every caller in every process.
//
// Use it for a result that is made once and read often, or for a job that runs once. For work that
// repeats use package reentrant.
//
//	report := once.New(session, "report/2026-11-22", once.Keep(24*time.Hour))
//	value, ran, err := report.Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
//		return makeReport(ctx)
//	})
//
// The function runs for all callers. A caller whose context ends returns at once; the function continues, and its
// outcome serves the next caller. It ends with its lease, with the session, or when no call has waited for it
// for 5 minutes (Linger).
//
// With a lock alone, a process that comes late would run the job again. For a job on a schedule, pass
// the time of the tick: job.At(tick).Do(ctx, fn).
//
// # Guarantees
//
//  1. At most one outcome is stored for a key until Keep is over, Forget deletes it, or the server
//     loses it. Every Do that returns without an error returns that outcome.
//  2. Exclusion: a key has at most one running function at a time, over all processes. For this, each
//     function must stop when its lease ends, and the server must keep its hold (the entry of its call) until then.
//  3. If the function fails or panics, or its process dies, nothing is stored. Then the next caller
//     runs its function: after an error or a panic at once, after a crash when the lease has ended.
//  4. A function whose lease was lost stores nothing if another call has acquired the lock since: Do
//     returns signalbox.ErrStale, and the outcome of the other call if there is one.
//  5. A call that finds the outcome stored costs one round trip and takes no lock.
//  6. A caller returns when its context ends, and ends nothing but its own wait. Close waits for functions that
//     still run, within its grace.
//  7. Callers of one session share one entry in the server's queue. A caller that waits has no goroutine
//     and no timer of its own.
//
// # Not promised
//
//   - That a function runs at most once. If its process dies after the work and before the outcome is
//     stored, the next caller runs it again. Make it safe to repeat, or use the token of its lease.
//   - Outcomes that the server lost: the function runs again (signalbox.WithReplicas).
//   - Which of the waiting callers of several processes runs next.
//   - Secrecy: every reader of the server can read the value.
//
// # Time
//
// While the function runs, its lock has a lease of 30 s (signalbox.WithRenewedLease), which is renewed. It
// is whole from the start unless signalbox.WithFirstLease sets less. If the caller had to wait, it is at
// most 3 s until the first renewal. Keep begins when the outcome is stored, and
// counts by the server's clock.
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
// over, and those of the lock for a minute.
//
// The lock is fair.New(session, key): Holder returns the caller that runs the function, and ForceUnlock
// lets another caller run it. A caller that holds that lock, or a reentrant one of that name, waits for
// itself.
//
// docs/internals/failures.md has the failures.
package once
