// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
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
	i.Query(proto.ReadStringCall(i.Key, labelSize), func(reply wire.Reply) {
		key := proto.ReadStringHead(&reply)
		value := key.Head
		holder := proto.Holder{Label: value, Session: sessionOf(value), Until: key.Ends}
		if holder.Session != "" {
			holder.Label = holder.Session // the value is the hold's id, with which it can be released
		}
		if value != "" && isLock(holder) {
			i.Report(proto.Use{Kind: proto.Reentrant.Name, Holders: []proto.Holder{holder}})
		}
	})
}
