// SPDX-License-Identifier: Apache-2.0

// Package otel makes an observer of locks for OpenTelemetry: metrics of waits, holds, losses and renewals, and
// spans for waits and holds.
//
// Use it if the service has OpenTelemetry, which also exports to Prometheus. Without it write a
// signalbox.Observer.
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
//	signalbox.lock.forced          counter, {lock}      holds that ForceUnlock of this session ended
//	signalbox.renewal.lag          histogram, s         how late renewals are
//	signalbox.renewal.lag.ratio    histogram, 1         the same, divided by the lease; see below
//	signalbox.shards.members       gauge, {member}      memberships of groups of shards
//	signalbox.shards.member.ends   counter, {member}    memberships that ended, by outcome: "left", or how the lease was lost
//	signalbox.shards.owned         gauge, {shard}       shards that are owned, draining ones included
//	signalbox.shards.draining      gauge, {shard}       shards whose work must stop, and has not yet
//	signalbox.shards.drains.slow   counter, {shard}     shards whose work had not stopped after a minute, or that no goroutine took up for one ("unread")
//	signalbox.shards.hold.duration histogram, s         how long shards were owned, by why they ended
//	signalbox.shards.drain.duration histogram, s        how long work needed to stop
//	signalbox.session.polling      gauge, {session}     sessions that get no messages, so their waiters only poll
//
// A lease is lost at a lag ratio of 2/3. A term of an election ends at 1/3, unless election.StepDown is set.
//
// The gauges are UpDownCounters. Metrics of locks have the attributes signalbox.lock.kind, the name of the lock's
// package, and signalbox.lock.class, if there is one (signalbox.WithClass). Read-write locks have
// signalbox.lock.mode, read or write. The durations have signalbox.outcome: of a wait "acquired" or why not, of a
// hold "released" or why it was lost; see signalbox.Event. Successful waits have signalbox.lock.source: "server"
// if the first reply granted the lock, "queue" if a later one did, and "process" if it was handed over inside this
// process. Names of locks are never attributes of metrics.
//
// # Spans
//
// With a TracerProvider each call has a span "<kind> wait", and each lease a span "<kind> hold" with its fencing
// token; both are children of the caller's span. A successful wait has a link to the last hold of that lock in this
// process. If its source is "process", that is the hold directly before. Spans of different processes are not linked:
// sort the holds of a lock by their fencing tokens. This shows no order of readers, which may share a token, or of
// permits.
//
// # Guarantees
//
//  1. The gauge signalbox.lock.waiting returns to 0 when no call waits, and signalbox.lock.held
//     when no lease is held.
//  2. Recording a metric allocates nothing in this package, after the first one with the same
//     attributes. The OpenTelemetry SDK may allocate.
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
