// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// reader reads the values of locks. Those of other clients are random: only those of this library differ from any other
// string. A name that the caller calls a lock is one, whichever client holds it.
//
//nolint:gochecknoglobals // a constant table
var reader = proto.Reader{
	Types: []string{proto.StringKey},
	ReadKey: func(i *proto.Inspection, _ string) {
		readValue(i, func(h proto.Holder) bool { return h.Session != "" })
	},
	ReadName: func(i *proto.Inspection) { readValue(i, func(proto.Holder) bool { return true }) },
}

// labelSize is how much of a value is shown.
const labelSize = 64

// readValue queries what a string is. It is a lock if isLock returns true for its holder.
func readValue(i *proto.Inspection, isLock func(proto.Holder) bool) {
	call := wire.Call{Script: scripts.SessionReadString, Keys: []string{i.Key}, Args: []string{strconv.Itoa(labelSize)}}
	i.Query(call, func(reply wire.Reply) {
		value := reply.Text(0)
		holder := proto.Holder{Label: value, Session: sessionOf(value)}
		if holder.Session != "" {
			holder.Label = holder.Session // the value is the hold's id, with which it can be released
		}
		if ends := reply.Int(1); ends > 0 {
			holder.Until = time.UnixMilli(ends)
		}
		if value != "" && isLock(holder) {
			i.Report(proto.Use{Kind: proto.Reentrant.Name, Holders: []proto.Holder{holder}})
		}
	})
}
