// SPDX-License-Identifier: Apache-2.0

// Package otel makes an observer of locks for OpenTelemetry: metrics of waits, holds, losses and renewals, and
// spans for waits and holds.
//
//	observer, err := sbotel.Observer(meterProvider, nil) // metrics, no spans
//	...
//	session, err := signalbox.Dial(ctx, url, signalbox.WithObserver(observer))
//
// # Metrics
//
//	signalbox.lock.wait.duration   histogram, s         how calls ended, after what time
//	signalbox.lock.hold.duration   histogram, s         how leases ended, after what time
//	signalbox.lock.waiting         gauge, {call}        calls that ask or wait now
//	signalbox.lock.held            gauge, {lease}       leases held now
//	signalbox.lock.unconfirmed     counter, {release}   releases to which the server did not reply
//	signalbox.lock.forced          counter, {lock}      holds that were ended by ForceUnlock
//	signalbox.renewal.lag          histogram, s         how late renewals are
//	signalbox.renewal.lag.ratio    histogram, 1         the same, as a share of the lease: 2/3 loses it
//	signalbox.session.polling      gauge, {session}     sessions whose waiters poll for want of messages
//
// The gauges are UpDownCounters. Metrics of locks have the attributes signalbox.lock.kind and, if there is one,
// signalbox.lock.class (signalbox.WithClass); read-write locks have signalbox.lock.mode, read or write. The
// durations have signalbox.outcome: of a wait "acquired" or why not, of a hold "released" or why it was lost; see
// signalbox.Event. Waits that ended with the lock have signalbox.lock.source. Names of locks are never attributes of
// metrics.
//
// # Spans
//
// With a TracerProvider each call has a span "<kind> wait", and each lease a span "<kind> hold" with its fencing
// token; both are children of the caller's span. The wait is linked to the last hold of that lock in this process,
// which is the one before if its source is "process". No link leads to a hold of another process: its token
// is smaller than that of this hold, which orders the spans of all processes.
//
// # Guarantees
//
//  1. The gauge signalbox.lock.waiting returns to 0 when no call waits, and signalbox.lock.held
//     when no lease is held.
//  2. An event costs no allocation in this package; what the SDK allocates is its own.
//
// # Not guaranteed
//
// That the polling gauge falls when a session is closed while it polls. A bound on series: there is one for each
// kind, class and outcome that occurs, so classes must be few.
//
// # Cost
//
// A few hundred nanoseconds a call with metrics. Spans cost more than an uncontended lock inside one process:
// use a sampler.
package otel
