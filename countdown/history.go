// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// roundState is the state of a round, as the server reports it.
type roundState byte

const (
	counting roundState = 'c'
	opened   roundState = 'o'
	wasReset roundState = 'x'
	// passed: opened, and another round was started since. The server writes it for no round.
	passed roundState = 'p'
	// unknown: the server knows nothing of the round.
	unknown roundState = '?'
)

const (
	recordSize = 16 + 1 + nonceSize
	valueSize  = 3 + recordSize + 16 + 8 + 10
	pastSize   = 32 * recordSize // the longest past
)

// roundRecord is a round as keys and messages have it: its stamp, its state, and its nonce.
type roundRecord struct {
	stamp wire.Stamp
	state roundState
	nonce string
}

// parseRecord reads the record of a round. ok reports whether text is one.
func parseRecord(text string) (e roundRecord, ok bool) {
	if len(text) != recordSize {
		return roundRecord{}, false
	}
	e = roundRecord{stamp: wire.ParseStamp(text[:16]), state: roundState(text[16]), nonce: text[17:]}
	return e, e.stamp > 0 && (e.state == counting || e.state == opened || e.state == wasReset)
}

// roundHistory is what the server knows of the rounds of a latch. It is zero if the latch has no key.
type roundHistory struct {
	newest roundRecord
	since  wire.Stamp // the oldest round of which anything is known
	past   string     // the records of the rounds before the newest, the last ended first
	left   int        // the number of missing ids of the newest round, while it counts
}

// parseHistory reads both fields of the key, as scripts return them.
func parseHistory(s proto.CountdownState) (roundHistory, error) {
	value := s.Value
	if value == "" {
		return roundHistory{}, nil
	}
	if len(value) == valueSize {
		if newest, ok := parseRecord(value[3 : 3+recordSize]); ok {
			return roundHistory{newest, wire.ParseStamp(value[3+recordSize : 3+recordSize+16]), s.Past, s.Left}, nil
		}
	}
	return roundHistory{}, foreign()
}

func parsePollReply(reply *wire.Reply) (roundHistory, error) {
	s := proto.ReadCountdownState(reply)
	if s.Code < wire.NotDone {
		return roundHistory{}, foreign()
	}
	return parseHistory(s)
}

func foreign() error { return fmt.Errorf("%w: the key is not a latch's", errs.ErrWrongKind) }

// stateOf returns the state of a round. The server lists the rounds before the newest, as many as it remembers. A round that
// is missing among these was lost with the writes of a failover, and others were started since. One before all of these was
// followed by another round, so it was over. The resets among such rounds are before since: it has opened.
func (h *roundHistory) stateOf(round wire.Stamp) roundState {
	switch {
	case round == h.newest.stamp:
		return h.newest.state
	case round > h.newest.stamp || round < h.since:
		return unknown
	}
	for past := h.past; len(past) >= recordSize; past = past[recordSize:] {
		switch e, ok := parseRecord(past[:recordSize]); {
		case !ok || e.stamp > round:
		case e.stamp < round:
			return unknown
		case e.state == wasReset:
			return wasReset
		default:
			return passed
		}
	}
	if len(h.past) < pastSize {
		return unknown // the server has forgotten no round
	}
	return passed
}

// waitError returns what Wait returns for a round in this state: nil if it has opened.
func (s roundState) waitError() error {
	switch s {
	case wasReset:
		return errs.ErrReset
	case unknown:
		return errs.ErrRoundLost
	case counting, opened, passed:
	}
	return nil
}
