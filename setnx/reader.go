// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// reader reads the values of locks. Those of other clients are random: only those of this library differ from any other
// string. A name that the caller calls a lock is one, whichever client holds it.
//
//nolint:gochecknoglobals // a constant table
var reader = layout.Reader{
	Types:    []string{layout.StringKey},
	ReadKey:  func(e layout.Entry, _ string) { readValue(e, func(h layout.Holder) bool { return h.Session != "" }) },
	ReadName: func(e layout.Entry) { readValue(e, func(layout.Holder) bool { return true }) },
}

// labelSize is how much of a value is shown.
const labelSize = 64

// readValue queries what a string is. It is a lock if isLock returns true for its holder.
func readValue(e layout.Entry, isLock func(layout.Holder) bool) {
	call := wire.Call{Script: scripts.SessionReadString, Keys: []string{e.Key()}, Args: []string{strconv.Itoa(labelSize)}}
	e.Query(call, func(reply wire.Reply) {
		value := reply.Text(0)
		holder := layout.Holder{Label: value, Session: sessionOf(value)}
		if holder.Session != "" {
			holder.Label = holder.Session // the value is the hold's id, with which it can be released
		}
		if ends := reply.Int(1); ends > 0 {
			holder.Until = time.UnixMilli(ends)
		}
		if value != "" && isLock(holder) {
			e.Report(layout.Use{Kind: string(session.Reentrant), Holders: []layout.Holder{holder}})
		}
	})
}
