// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// loopTable is the table of a closed loop. The columns of more stand after those of the costs.
func (b *bench) loopTable(title string, all []series, more ...column) table {
	if len(all) == 0 || len(all[0].samples) == 0 {
		return table{title: title}
	}
	note := fmt.Sprintf("Rounds of %s: %d.", span(all[0].samples[0].elapsed.Seconds()), len(all[0].samples)) + leftWaiting(all)
	var columns []column
	columns = append(columns, rateColumns()...)
	columns = append(columns, costColumns("op")...)
	columns = append(columns, more...)
	columns = append(columns, waitColumns("wait p50")...)
	columns = append(columns, column{"least/most served", served})
	return tabulate(title, note, all, columns)
}

// leftWaiting says whose waiters had to be given up, if any.
func leftWaiting(all []series) string {
	var text strings.Builder
	for _, s := range all {
		rounds, stuck := 0, int64(0)
		for _, one := range s.samples {
			stuck += one.stuck
			if one.stuck > 0 {
				rounds++
			}
		}
		if stuck > 0 {
			fmt.Fprintf(&text, " In %d of %d rounds %s left %s waiting for a free lock.",
				rounds, len(s.samples), s.impl.name, counted(int(stuck), "goroutine", "goroutines"))
		}
	}
	return text.String()
}

func rateColumns() []column {
	return []column{
		{"ops/s", medianOf(rate, number)},
		{"to limit", toLimit(rate)},
		{"to best peer", toBestPeer(rate)},
	}
}

// costColumns are what an operation of this name costs.
func costColumns(op string) []column {
	return []column{
		{"requests/" + op, medianOf(per(requests), number)},
		{"commands/" + op, medianOf(per(commands), number)},
		{"server CPU/" + op, medianOf(per(serverCPU), span)},
		{"client CPU/" + op, medianOf(per(clientCPU), span)},
		{"allocs/" + op, medianOf(per(mallocs), number)},
		{"B/" + op, medianOf(per(bytes), number)},
	}
}

// waitColumns are of the waits of all rounds together; p50 is the title of their median.
func waitColumns(p50 string) []column {
	at := func(q float64) func([]series, series) string {
		return func(_ []series, s series) string { return span(s.waits().quantile(q).Seconds()) }
	}
	return []column{
		{p50, at(0.5)},
		{"p99", at(0.99)},
		{"max", func(_ []series, s series) string { return span(s.longest().Seconds()) }},
	}
}

func medianOf(f figure, format func(float64) string) func([]series, series) string {
	return func(_ []series, s series) string { return format(s.median(f)) }
}

func toLimit(f figure) func([]series, series) string {
	return func(all []series, s series) string {
		base, ok := find(all, limitName)
		if !ok || s.impl.name == limitName {
			return none
		}
		return share(s.ratio(base, f))
	}
}

// toBestPeer is for the locks that are no peers: for those it would be 1 or less.
func toBestPeer(f figure) func([]series, series) string {
	return func(all []series, s series) string {
		best, ok := bestPeer(all, f)
		if !ok || !s.impl.excludes {
			return none
		}
		return share(s.ratio(best, f))
	}
}

// share prints a ratio: those near 1 to a hundredth.
func share(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return number(v)
}

func served(_ []series, s series) string {
	even := s.evenness()
	if even.least == even.ops { // one goroutine
		return none
	}
	return fmt.Sprintf("%d/%d", even.least, even.most)
}
