// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Once is a kind. Its use is an outcome that is stored: while a function runs, its call holds a fair lock.
//
//nolint:gochecknoglobals // a constant table
var Once = Kind{
	Name:       "once",
	Options:    optionsOfLeases | OptionFixedLease | OptionMaxHold | OptionReplicas | OptionKeepOutcome | OptionLinger,
	WholeLease: true,
	Key:        Set.Outcome,
	Read:       readOutcome,
	Summary: func(u *Use) string {
		return fmt.Sprintf("an outcome is stored, of a run that began %s, until %s", moment(u.Since), moment(u.Until))
	},
}

// moment returns a time of the server, or a dash.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// outcomeHead is how an outcome begins: sb1o and a stamp.
const outcomeHead = 20

func readOutcome(i *Inspection) {
	i.Query(ReadStringCall(i.Key, outcomeHead), func(reply wire.Reply) {
		outcome := ReadStringHead(&reply)
		switch head := outcome.Head; {
		case head == "":
		case len(head) != outcomeHead || head[:4] != "sb1o":
			i.SetForeign()
		default:
			i.InUse = true
			stamp := wire.ParseStamp(head[4:])
			i.Use.Since, i.Use.Token = stamp.Time(), stamp.Token()
			i.Use.Until = outcome.Ends
		}
	})
}
