// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// recordEvidence is the evidence of rounds whose messages are records. A record is believed if it has the nonce of the round. It
// implements layout.Evidence.
type recordEvidence struct {
	round    wire.Stamp
	nonce    string // the nonce of an authentic record; "" until the reply to a poll contained it
	reported bool   // a record reported an end before the nonce was known: a poll is to confirm it
}

func newRecordEvidence(round wire.Stamp) layout.Evidence { return &recordEvidence{round: round} }

// Fence implements layout.Evidence.
func (*recordEvidence) Fence(fence string) string { return fence }

// OnRunning implements layout.Evidence.
func (e *recordEvidence) OnRunning(nonce string) (again bool) {
	again = e.nonce == "" && e.reported
	e.nonce = nonce
	return again
}

// OnMessage implements layout.Evidence.
func (e *recordEvidence) OnMessage(message string, end func(err error)) (poll bool) {
	record, ok := parseRecord(message)
	switch {
	case !ok || record.state == counting || record.stamp != e.round:
	case e.nonce == "":
		e.reported = true // the reply to the poll under way may be older
	case e.nonce == record.nonce:
		end(record.state.waitError())
	}
	return false
}
