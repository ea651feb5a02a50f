// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// native is the library's own layout. Each kind with a key of its own says how that is read.
type native struct {
	prefix      string // the prefix of the keys
	namePrefix  string // the beginning of the names to list
	waiterLimit int    // the most waiters to read
}

// scans implements lister.
func (n native) scans() []wire.Scan {
	return []wire.Scan{{Match: literal(n.prefix+"{"+proto.Encode(withoutPartialRune(n.namePrefix))) + "*"}}
}

// ofKey implements lister. A key that says nothing by itself is one such as a queue.
func (n native) ofKey(_ wire.Scan, key string) *keyInspection {
	tag, set, parsed := proto.Parse(n.prefix, key)
	if !parsed {
		return nil
	}
	about := Entry{Hashed: proto.IsHash(tag)}
	name, decoded := proto.Decode(tag)
	if about.Name = name; !decoded {
		about.Name, about.Raw = tag, !about.Hashed
	}
	if n.namePrefix != "" && (about.Hashed || !strings.HasPrefix(about.Name, n.namePrefix)) {
		return nil // what a digest stands for may begin with anything
	}
	for _, kind := range proto.All {
		if kind.Key != nil && kind.Key(set) == key {
			return n.inspectionOf(kind, set, about)
		}
	}
	return nil
}

// ofName implements lister.
func (n native) ofName(set proto.Set, about Entry) []*keyInspection {
	var inspections []*keyInspection
	for _, kind := range proto.All {
		if kind.Key != nil {
			inspections = append(inspections, n.inspectionOf(kind, set, about))
		}
	}
	return inspections
}

func (n native) inspectionOf(kind *proto.Kind, set proto.Set, about Entry) *keyInspection {
	about.Key = kind.Key(set)
	ki := &keyInspection{about: about, Inspection: proto.Inspection{
		Key: about.Key, Names: set, WaiterLimit: n.waiterLimit, Use: proto.Use{Kind: kind.Name},
	}}
	kind.Read(&ki.Inspection)
	return ki
}

// others lists the locks of a layout of others, by the reader of the layout. Keys are names there, so each key of the
// server may be one.
type others struct {
	reader     *proto.Reader
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
	ki := &keyInspection{Inspection: proto.Inspection{Key: key}, about: Entry{Name: key, Key: key}}
	o.reader.ReadKey(&ki.Inspection, scan.Type)
	return ki
}

// ofName implements lister.
func (o others) ofName(_ proto.Set, about Entry) []*keyInspection {
	ki := &keyInspection{Inspection: proto.Inspection{Key: about.Key}, about: about}
	o.reader.ReadName(&ki.Inspection)
	return []*keyInspection{ki}
}
