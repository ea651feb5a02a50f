// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/signalbox-go/signalbox/inspect"
)

// metrics collects what a list says, by kind: names would be labels without a bound.
type metrics struct{ list *snapshot }

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("signalbox_"+name, help, labels, nil)
}

//nolint:gochecknoglobals // a constant table
var (
	metricUp       = describeMetric("up", "1 if the last list of names is complete, else 0.")
	metricDuration = describeMetric("list_duration_seconds", "How long the last list of names took.")
	metricNames    = describeMetric("names", "How many names are in use.", "kind")
	metricHolders  = describeMetric("holders", "How many holds there are. A name with more than 1000 counts as 1000.", "kind")
	metricWaiters  = describeMetric("waiters", "How many tickets wait.", "kind")
	metricLongest  = describeMetric("longest_wait_seconds", "How long the first ticket of a queue has waited, by the clock of this host.", "kind")
)

// Describe implements prometheus.Collector.
func (*metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metricUp, metricDuration, metricNames, metricHolders, metricWaiters, metricLongest} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	now := m.list.now(context.Background())
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	up := 1.0
	if now.err != nil {
		up = 0
	}
	gauge(metricUp, up)
	gauge(metricDuration, now.took.Seconds())
	if now.err != nil && len(now.entries) == 0 {
		return // not known is not 0
	}
	for kind, t := range totals(now) {
		gauge(metricNames, float64(t.names), kind)
		gauge(metricHolders, float64(t.holders), kind)
		gauge(metricWaiters, float64(t.waiters), kind)
		gauge(metricLongest, t.longest.Seconds(), kind)
	}
}

// total is the sum of the entries of a kind.
type total struct {
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

func totals(now state) map[string]total {
	all := make(map[string]total)
	for _, kind := range kinds {
		all[kind] = total{}
	}
	for _, e := range now.entries {
		t := all[e.Kind]
		t.names, t.holders, t.waiters = t.names+1, t.holders+e.HolderCount, t.waiters+e.WaiterCount
		if len(e.Waiters) > 0 && !e.Waiters[0].Since.IsZero() {
			t.longest = max(t.longest, now.at.Sub(e.Waiters[0].Since))
		}
		all[e.Kind] = t
	}
	return all
}
