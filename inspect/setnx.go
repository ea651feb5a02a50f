// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// setnx is the layout of clients that write a lock by SET with NX and PX. Keys are names there, and the values of other
// clients are random: only those of this library differ from any other string.
type setnx struct{ namePrefix string }

// scans implements lister.
func (s setnx) scans() []wire.Scan {
	return []wire.Scan{{Match: literal(s.namePrefix) + "*", Type: stringType}}
}

// ofKey implements lister.
func (s setnx) ofKey(_ wire.Scan, key string) *keyInspection {
	ki := &keyInspection{entry: Entry{Name: key, Key: key}}
	s.queryLock(ki, func(holder Holder) bool { return holder.Session != "" })
	return ki
}

// ofName implements lister. A name that the caller calls a lock is one, whichever client holds it.
func (s setnx) ofName(_ names.Set, entry Entry) []*keyInspection {
	ki := &keyInspection{entry: entry}
	s.queryLock(ki, func(Holder) bool { return true })
	return []*keyInspection{ki}
}

// labelSize is how much of a value is shown.
const labelSize = 64

// queryLock queries what a string is. It is a lock if accepted returns true for its holder.
func (setnx) queryLock(ki *keyInspection, accepted func(Holder) bool) {
	ki.query(readString(ki.entry.Key, labelSize), func(reply wire.Reply) {
		value := reply.Text(0)
		holder := Holder{Label: value, Session: layout.SetNX().Session(value)}
		if holder.Session != "" {
			holder.Label = holder.Session // the value is the hold's id, with which it can be released
		}
		if ends := reply.Int(1); ends > 0 {
			holder.Until = time.UnixMilli(ends)
		}
		if value == "" || !accepted(holder) {
			return
		}
		ki.entry.Kind = Reentrant
		ki.addHolder(holder)
	})
}
