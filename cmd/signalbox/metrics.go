// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/signalbox-go/signalbox/inspect"
)

// metrics collects what a list says, by kind: names would be labels without a bound. Groups of shards have metrics of their own,
// since they are few, and each shard without an owner matters.
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
	metricGroup    = describeMetric("shards", "How many shards a group has.", "group")
	metricMembers  = describeMetric("shards_members", "How many members a group of shards has.", "group")
	metricUnowned  = describeMetric("shards_unowned", "How many shards of a group have no owner.", "group")
	metricDraining = describeMetric("shards_draining", "How many shards of a group their owner was asked for, and has still.", "group")
	metricFree     = describeMetric("shards_unowned_seconds", "How long the first unowned shard of a group has had no owner, by the clock of this host; 0 if all have one.", "group")
	metricDrain    = describeMetric("shards_draining_seconds", "How long ago the first draining shard of a group was asked for, by the clock of this host; 0 if none drains.", "group")
	metricLongest  = describeMetric("longest_wait_seconds", "How long the first ticket of a queue has waited, by the clock of this host.", "kind")
)

// Describe implements prometheus.Collector.
func (*metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricUp, metricAge, metricDuration, metricExamined, metricKeys, metricMore, metricNames, metricHolders, metricWaiters, metricLongest,
		metricGroup, metricMembers, metricUnowned, metricDraining, metricFree, metricDrain,
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
	for _, e := range groups(now.Entries) {
		gauge(metricGroup, float64(e.Shards), e.Name)
		gauge(metricMembers, float64(e.HolderCount), e.Name)
		gauge(metricUnowned, float64(e.Unowned), e.Name)
		gauge(metricDraining, float64(e.Draining), e.Name)
		gauge(metricFree, secondsSince(now.At, e.UnownedSince), e.Name)
		gauge(metricDrain, secondsSince(now.At, e.DrainingSince), e.Name)
	}
}

// maxGroups is how many groups of shards have metrics of their own: a group is a label.
const maxGroups = 100

// groups returns the groups of shards, the first of them if there are many. A label is UTF-8, and there is one of each.
func groups(entries []inspect.Entry) (all []inspect.Entry) {
	for _, e := range entries {
		isOther := len(all) == 0 || all[len(all)-1].Name != e.Name // a digest may look like a name
		if e.Shards > 0 && utf8.ValidString(e.Name) && isOther && len(all) < maxGroups {
			all = append(all, e)
		}
	}
	return all
}

// secondsSince returns for how long something is so; 0 for the zero time.
func secondsSince(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0).Seconds()
}

// kindTotals is the sum of the entries of a kind.
type kindTotals struct {
	names, holders, waiters int
	longest                 time.Duration
}

func totals(now inspect.Snapshot) map[string]kindTotals {
	all := make(map[string]kindTotals)
	for _, kind := range inspect.Kinds() {
		all[kind] = kindTotals{} // a kind has a metric even if there are no names
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
