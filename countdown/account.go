// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// state is how a round stands, as the server says it.
type roundState byte

const (
	counting roundState = 'c'
	opened   roundState = 'o'
	wasReset roundState = 'x'
	// passed: opened, and another round was started since. The server writes it down of none.
	passed roundState = 'p'
	// unknown: the server knows nothing of the round.
	unknown roundState = '?'
)

const (
	recordSize = 16 + 1 + nonceSize
	valueSize  = 3 + recordSize + 16 + 8 + 10
)

// entry is a round as keys and messages have it: its stamp, how it stands, and its nonce.
type roundRecord struct {
	stamp wire.Stamp
	state roundState
	nonce string
}

// readEntry reads one. ok: it is one.
func parseRecord(text string) (e roundRecord, ok bool) {
	if len(text) != recordSize {
		return roundRecord{}, false
	}
	e = roundRecord{stamp: wire.ParseStamp(text[:16]), state: roundState(text[16]), nonce: text[17:]}
	return e, e.stamp > 0 && (e.state == counting || e.state == opened || e.state == wasReset)
}

// account is what a latch says of its rounds; the zero account if it has no key.
type roundHistory struct {
	newest roundRecord
	since  wire.Stamp // of rounds before it nothing is known
	past   string     // entries of those before the newest, the last ended first
	left   int        // of the newest, while it counts
}

// readAccount reads both fields of the key, as scripts return them.
func parseHistory(value, past string, left int64) (roundHistory, error) {
	if value == "" {
		return roundHistory{}, nil
	}
	if len(value) == valueSize {
		if newest, ok := parseRecord(value[3 : 3+recordSize]); ok {
			return roundHistory{newest, wire.ParseStamp(value[3+recordSize : 3+recordSize+16]), past, int(left)}, nil
		}
	}
	return roundHistory{}, foreign()
}

// readLook reads the reply to a poll.
func parsePollReply(reply wire.Reply) (roundHistory, error) {
	if reply.Code() < wire.NotDone {
		return roundHistory{}, foreign()
	}
	return parseHistory(reply.Text(1), reply.Text(2), reply.Int(3))
}

// foreign returns the error for a key that is no latch's.
func foreign() error { return fmt.Errorf("%w: the key is not a latch's", errs.ErrWrongKind) }

// of returns how a round stands. A round can be followed by another only when it is over, and the resets are
// all written down, as far back as since: one between that and the newest has opened.
func (a *roundHistory) stateOf(round wire.Stamp) roundState {
	switch {
	case round == a.newest.stamp:
		return a.newest.state
	case round > a.newest.stamp || round < a.since:
		return unknown
	}
	for past := a.past; len(past) >= recordSize; past = past[recordSize:] {
		if e, ok := parseRecord(past[:recordSize]); ok && e.stamp == round && e.state == wasReset {
			return wasReset
		}
	}
	return passed
}

// outcome returns what a round that stands so ended with: nil is that it has opened.
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
