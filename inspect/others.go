// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

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
