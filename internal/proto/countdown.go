// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Countdown is a kind.
//
//nolint:gochecknoglobals // a constant table
var Countdown = Kind{
	Name:     "countdown",
	Options:  OptionKeep,
	InLayout: func(l *Layout) bool { return l.Latch != nil },
	Key:      Set.Latch,
	Read:     readLatch,
	IsHeld:   true,
	Summary:  func(u *Use) string { return fmt.Sprintf("%d of %d missing", u.Left, u.Total) },
}

// The fields of a latch's round, and its length; scripts/README.md has them.
const (
	roundSize = 65
	counting  = 'c'
)

func readLatch(i *Inspection) {
	var value string
	key := []string{i.Key}
	i.Query(wire.Call{Command: "HGET", Keys: key, Args: []string{"round"}}, func(reply wire.Reply) { value = reply.Text(0) })
	i.Query(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) {
		size := int(reply.Int(0))
		switch {
		case size == 0:
		case len(value) != roundSize || value[:3] != "sb1":
			i.SetForeign()
		case value[19] == counting:
			i.InUse = true
			i.Use.Since = wire.ParseStamp(value[3:19]).Time()
			i.Use.Total, _ = strconv.Atoi(value[47:55]) // 0 if another program wrote it
			i.Use.Left = max(i.Use.Total-(size-2), 0)   // all fields but round and past are ids
		}
	})
}
