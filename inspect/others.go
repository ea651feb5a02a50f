// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// others lists the locks of a layout of others, by the reader of the layout. Keys are names there, so each key of the
// server may be one.
type others struct {
	reader     *layout.Reader
	namePrefix string
}

// scans implements lister.
func (o others) scans() (scans []wire.Scan) {
	for _, keyType := range o.reader.Types {
		scans = append(scans, wire.Scan{Match: literal(o.namePrefix) + "*", Type: keyType})
	}
	return scans
}

// ofKey implements lister.
func (o others) ofKey(scan wire.Scan, key string) *keyInspection {
	ki := &keyInspection{entry: Entry{Name: key, Key: key}}
	o.reader.ReadKey(othersEntry{ki}, scan.Type)
	return ki
}

// ofName implements lister.
func (o others) ofName(_ names.Set, entry Entry) []*keyInspection {
	ki := &keyInspection{entry: entry}
	o.reader.ReadName(othersEntry{ki})
	return []*keyInspection{ki}
}

// othersEntry implements layout.Entry.
type othersEntry struct{ ki *keyInspection }

// Key implements layout.Entry.
func (o othersEntry) Key() string { return o.ki.entry.Key }

// Query implements layout.Entry.
func (o othersEntry) Query(call wire.Call, onReply func(reply wire.Reply)) { o.ki.query(call, onReply) }

// Report implements layout.Entry.
func (o othersEntry) Report(use layout.Use) {
	e := &o.ki.entry
	e.Kind, e.Capacity, e.Held = use.Kind, use.Capacity, use.Held
	e.Holders, e.Waiters = nil, nil
	for _, h := range use.Holders {
		e.Holders = append(e.Holders, Holder{Label: h.Label, Session: h.Session, Hold: h.Hold, Shared: h.Shared, Permits: h.Permits, Until: h.Until})
	}
	for _, w := range use.Waiters {
		e.Waiters = append(e.Waiters, Waiter{Label: w.Label, Session: w.Session, Alive: w.Alive})
	}
	e.HolderCount, e.WaiterCount, o.ki.inUse = len(e.Holders), len(e.Waiters), true
}
