// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/signalbox-go/signalbox/inspect"
)

// metrics collects what a list says, by kind: names would be labels without a bound.
type metrics struct {
	snapshot func(ctx context.Context) inspect.Snapshot
}

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("signalbox_"+name, help, labels, nil)
}

//nolint:gochecknoglobals // a constant table
var (
	metricUp       = describeMetric("up", "1 if the server replies and denies nothing, else 0. See list_age_seconds for names that are new.")
	metricAge      = describeMetric("list_age_seconds", "Every name that has been in use for longer is in the list.")
	metricDuration = describeMetric("list_duration_seconds", "How long the last round through all keys of the server lasted; 0 before the first has ended.")
	metricExamined = describeMetric("list_examined_keys", "How many keys of the server the round under way has examined, about.")
	metricKeys     = describeMetric("list_keys", "How many keys a round examines, about; 0 if it is not known.")
	metricMore     = describeMetric("list_more_names", "How many names in use are not in the list, since there are too many.")
	metricNames    = describeMetric("names", "How many names are in use.", "kind")
	metricHolders  = describeMetric("holders", "How many holds there are. A name with more than 1000 counts as 1000.", "kind")
	metricWaiters  = describeMetric("waiters", "How many tickets wait.", "kind")
	metricLongest  = describeMetric("longest_wait_seconds", "How long the first ticket of a queue has waited, by the clock of this host.", "kind")
)

// Describe implements prometheus.Collector.
func (*metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricUp, metricAge, metricDuration, metricExamined, metricKeys, metricMore, metricNames, metricHolders, metricWaiters, metricLongest,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	now := m.snapshot(context.Background())
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	up := 1.0
	if now.Err != nil {
		up = 0
	}
	gauge(metricUp, up)
	gauge(metricAge, now.Age.Seconds())
	gauge(metricDuration, now.Took.Seconds())
	gauge(metricExamined, float64(now.Examined))
	gauge(metricKeys, float64(now.Keys))
	gauge(metricMore, float64(now.More))
	if now.Err != nil && len(now.Entries) == 0 {
		return // not known is not 0
	}
	for kind, t := range totals(now) {
		gauge(metricNames, float64(t.names), kind)
		gauge(metricHolders, float64(t.holders), kind)
		gauge(metricWaiters, float64(t.waiters), kind)
		gauge(metricLongest, t.longest.Seconds(), kind)
	}
}

// kindTotals is the sum of the entries of a kind.
type kindTotals struct {
	names, holders, waiters int
	longest                 time.Duration
}

// kinds are those that have a metric even if there are no names.
//
//nolint:gochecknoglobals // a constant table
var kinds = []string{
	inspect.Reentrant, inspect.Fair, inspect.RWLock, inspect.Semaphore, inspect.Countdown, inspect.Redlock, inspect.Election, inspect.Once,
	inspect.Exclusive, inspect.Foreign, inspect.Number,
}

func totals(now inspect.Snapshot) map[string]kindTotals {
	all := make(map[string]kindTotals)
	for _, kind := range kinds {
		all[kind] = kindTotals{}
	}
	for _, e := range now.Entries {
		t := all[e.Kind]
		t.names, t.holders, t.waiters = t.names+1, t.holders+e.HolderCount, t.waiters+e.WaiterCount
		if len(e.Waiters) > 0 && !e.Waiters[0].Since.IsZero() {
			t.longest = max(t.longest, now.At.Sub(e.Waiters[0].Since))
		}
		all[e.Kind] = t
	}
	return all
}
