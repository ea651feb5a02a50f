// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/signalbox-go/signalbox"
)

// metrics are the instruments.
type metrics struct {
	waits, holds, lags, ratios metric.Float64Histogram
	waiting, held, polling     metric.Int64UpDownCounter
	unconfirmed, forced        metric.Int64Counter
	members, shards, draining  metric.Int64UpDownCounter
	memberEnds, slow           metric.Int64Counter
	owned, drains              metric.Float64Histogram

	mu   sync.RWMutex
	sets map[labels]*attributeSet
}

// labels are the values from which the attributes of a measurement are made. Each has few values.
type labels struct {
	kind, class     string
	shared          bool
	outcome, source string
}

// attributeSet is a set of attributes that is made once, in the form of options of the instruments.
type attributeSet struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newMetrics(meter metric.Meter, s settings) (*metrics, error) {
	m := &metrics{sets: make(map[labels]*attributeSet)}
	var errs [9]error
	m.waits, errs[0] = meter.Float64Histogram("signalbox.lock.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("How long calls waited for a lock."), metric.WithExplicitBucketBoundaries(s.waits...))
	m.holds, errs[1] = meter.Float64Histogram("signalbox.lock.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("How long leases were held."), metric.WithExplicitBucketBoundaries(s.holds...))
	m.waiting, errs[2] = meter.Int64UpDownCounter("signalbox.lock.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that ask or wait for a lock."))
	m.held, errs[3] = meter.Int64UpDownCounter("signalbox.lock.held", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that are held."))
	m.unconfirmed, errs[4] = meter.Int64Counter("signalbox.lock.unconfirmed", metric.WithUnit("{release}"),
		metric.WithDescription("Releases to which the server did not reply."))
	m.forced, errs[5] = meter.Int64Counter("signalbox.lock.forced", metric.WithUnit("{lock}"),
		metric.WithDescription("Holds that were ended by ForceUnlock."))
	m.lags, errs[6] = meter.Float64Histogram("signalbox.renewal.lag", metric.WithUnit("s"),
		metric.WithDescription("By how much the latest renewal of a batch is later than a third of its lease."),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 20, 60))
	m.ratios, errs[7] = meter.Float64Histogram("signalbox.renewal.lag.ratio", metric.WithUnit("1"),
		metric.WithDescription("The same as a share of the lease; at two thirds it is lost."),
		metric.WithExplicitBucketBoundaries(.01, .05, .1, .2, 1./3, .4, .5, .6))
	m.polling, errs[8] = meter.Int64UpDownCounter("signalbox.session.polling", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions whose waiters poll, since no messages arrive."))
	err := errors.Join(append(errs[:], m.makeShardMetrics(meter, s))...) //nolint:forbidigo // errs.Join is inside the library
	if err != nil {
		return nil, err
	}
	m.polling.Add(context.Background(), 0) // a series from the start: an alert cannot ask for what there never was
	return m, nil
}

// makeShardMetrics makes the instruments of groups of shards.
func (m *metrics) makeShardMetrics(meter metric.Meter, s settings) error {
	var errs [7]error
	m.members, errs[0] = meter.Int64UpDownCounter("signalbox.shards.members", metric.WithUnit("{member}"),
		metric.WithDescription("Members of groups of shards in this process."))
	m.shards, errs[1] = meter.Int64UpDownCounter("signalbox.shards.owned", metric.WithUnit("{shard}"),
		metric.WithDescription("Shards that are owned, those included whose work must stop."))
	m.draining, errs[2] = meter.Int64UpDownCounter("signalbox.shards.draining", metric.WithUnit("{shard}"),
		metric.WithDescription("Shards whose work must stop, and has not yet."))
	m.memberEnds, errs[3] = meter.Int64Counter("signalbox.shards.member.ends", metric.WithUnit("{member}"),
		metric.WithDescription("Memberships that ended."))
	m.slow, errs[4] = meter.Int64Counter("signalbox.shards.drains.slow", metric.WithUnit("{shard}"),
		metric.WithDescription("Shards whose work had not stopped after a minute, or that no goroutine took up for one."))
	m.owned, errs[5] = meter.Float64Histogram("signalbox.shards.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("How long shards were owned."), metric.WithExplicitBucketBoundaries(s.holds...))
	m.drains, errs[6] = meter.Float64Histogram("signalbox.shards.drain.duration", metric.WithUnit("s"),
		metric.WithDescription("How long work needed to stop."), metric.WithExplicitBucketBoundaries(s.holds...))
	return errors.Join(errs[:]...) //nolint:forbidigo // errs.Join is inside the library
}

// addShardHooks adds the hooks of groups of shards.
func (m *metrics) addShardHooks(o *signalbox.Observer) {
	o.MemberJoined = func(ctx context.Context, e signalbox.Event) { m.members.Add(ctx, 1, m.withOutcome(e, "").add...) }
	o.MemberLeft = func(ctx context.Context, e signalbox.Event) {
		m.members.Add(ctx, -1, m.withOutcome(e, "").add...)
		m.memberEnds.Add(ctx, 1, m.withOutcome(e, e.Outcome).add...)
	}
	o.ShardGranted = func(ctx context.Context, e signalbox.Event) { m.shards.Add(ctx, 1, m.withOutcome(e, "").add...) }
	o.ShardDraining = func(ctx context.Context, e signalbox.Event) { m.draining.Add(ctx, 1, m.withOutcome(e, "").add...) }
	o.ShardSlow = func(ctx context.Context, e signalbox.Event) { m.slow.Add(ctx, 1, m.withOutcome(e, e.Outcome).add...) }
	o.ShardReleased = func(ctx context.Context, e signalbox.Event) {
		m.shards.Add(ctx, -1, m.withOutcome(e, "").add...)
		m.owned.Record(ctx, e.Held.Seconds(), m.withOutcome(e, e.Outcome).record...)
		if e.Outcome != "released" { // then it had to stop, and was draining
			m.draining.Add(ctx, -1, m.withOutcome(e, "").add...)
			m.drains.Record(ctx, e.Waited.Seconds(), m.withOutcome(e, e.Outcome).record...)
		}
	}
}

func (m *metrics) observer() signalbox.Observer {
	o := signalbox.Observer{
		Waiting: func(ctx context.Context, e signalbox.Event) context.Context {
			m.waiting.Add(ctx, 1, m.withOutcome(e, "").add...)
			return ctx
		},
		Acquired: func(ctx context.Context, e signalbox.Event) context.Context {
			lock := m.withOutcome(e, "").add
			m.waiting.Add(ctx, -1, lock...)
			m.held.Add(ctx, 1, lock...)
			m.waits.Record(ctx, e.Waited.Seconds(), m.withSource(e).record...)
			return ctx
		},
		Refused: func(ctx context.Context, e signalbox.Event) {
			m.waiting.Add(ctx, -1, m.withOutcome(e, "").add...)
			m.waits.Record(ctx, e.Waited.Seconds(), m.withOutcome(e, e.Outcome).record...)
		},
		Released:    func(ctx context.Context, e signalbox.Event) { m.ended(ctx, e, "released") },
		Lost:        func(ctx context.Context, e signalbox.Event) { m.ended(ctx, e, e.Outcome) },
		Unconfirmed: func(ctx context.Context, e signalbox.Event) { m.unconfirmed.Add(ctx, 1, m.withOutcome(e, "").add...) },
		Forced:      func(ctx context.Context, e signalbox.Event) { m.forced.Add(ctx, 1, m.withOutcome(e, "").add...) },
		Renewed: func(ctx context.Context, e signalbox.Event) {
			outcome := e.Outcome
			if e.Err == nil {
				outcome = "renewed"
			}
			renewed := m.get(labels{outcome: outcome}).record
			m.lags.Record(ctx, e.Lag.Seconds(), renewed...)
			m.ratios.Record(ctx, e.Lag.Seconds()/e.Lease.Seconds(), renewed...)
		},
		Polling:    func(ctx context.Context, _ signalbox.Event) { m.polling.Add(ctx, 1) },
		Subscribed: func(ctx context.Context, _ signalbox.Event) { m.polling.Add(ctx, -1) },
	}
	m.addShardHooks(&o)
	return o
}

// ended measures the end of a lease.
func (m *metrics) ended(ctx context.Context, e signalbox.Event, outcome string) {
	m.held.Add(ctx, -1, m.withOutcome(e, "").add...)
	m.holds.Record(ctx, e.Held.Seconds(), m.withOutcome(e, outcome).record...)
}

// withOutcome returns the attributes of a lock and an outcome. A gauge is raised and lowered with the same: its outcome is "".
func (m *metrics) withOutcome(e signalbox.Event, outcome string) *attributeSet {
	return m.get(labels{kind: e.Kind, class: e.Class, shared: e.Shared, outcome: outcome})
}

// withSource returns the attributes of a wait that got the lock.
func (m *metrics) withSource(e signalbox.Event) *attributeSet {
	return m.get(labels{kind: e.Kind, class: e.Class, shared: e.Shared, outcome: "acquired", source: e.Source})
}

func (m *metrics) get(l labels) *attributeSet {
	m.mu.RLock()
	s := m.sets[l]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.sets[l]; s == nil {
		with := metric.WithAttributeSet(attribute.NewSet(l.attributes()...))
		s = &attributeSet{add: []metric.AddOption{with}, record: []metric.RecordOption{with}}
		m.sets[l] = s
	}
	return s
}

// attributes returns those that are not empty.
func (l labels) attributes() (all []attribute.KeyValue) {
	if l.kind == "rwlock" {
		mode := "write"
		if l.shared {
			mode = "read"
		}
		all = append(all, attribute.String("signalbox.lock.mode", mode))
	}
	for key, value := range map[attribute.Key]string{
		"signalbox.lock.kind": l.kind, "signalbox.lock.class": l.class, "signalbox.outcome": l.outcome, "signalbox.lock.source": l.source,
	} {
		if value != "" {
			all = append(all, key.String(value))
		}
	}
	return all
}
