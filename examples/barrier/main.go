// SPDX-License-Identifier: Apache-2.0

// Command barrier is a cyclic barrier made of a count-down latch: processes work in phases, and none begins a phase
// before all have ended the one before. One of them dies and is started again in the middle of a phase, and in the
// end a process breaks the barrier.
package main

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
)

func main() { demo.Main(show) }

// Barrier lets parties of any processes continue together, again and again: each phase is a round of one latch. A
// round does not open before all have arrived, so that no party can be a phase behind.
type Barrier struct {
	latch   *countdown.Latch
	parties int
}

// NewBarrier returns the barrier of that name.
func NewBarrier(s *signalbox.Session, name string, parties int) *Barrier {
	return &Barrier{latch: countdown.New(s, name), parties: parties}
}

// Await says that a party has arrived, and blocks until all others have. A party that is started again while others
// are still to come arrives once more, and counts once. If all had come by then, it arrives for the next phase: a
// party that must know keeps the ID of the round with its work, and asks Latch.RoundOf of that first.
//
// Await returns ErrReset if a party broke the barrier, and ErrNoRound if that happened while this party arrived.
func (b *Barrier) Await(ctx context.Context, party string) error {
	phase, err := b.Arrive(ctx, party)
	if err != nil {
		return err
	}
	return phase.Wait(ctx)
}

// Arrive says that a party has arrived, and returns the phase that it is to wait for.
func (b *Barrier) Arrive(ctx context.Context, party string) (phase countdown.Round, err error) {
	phase, err = b.latch.Start(ctx, b.parties) // the first party begins the phase
	if errors.Is(err, signalbox.ErrRunning) {
		phase, err = b.latch.Round(ctx)
	}
	if err == nil {
		_, err = phase.CountDown(ctx, party)
	}
	return phase, err
}

// Break ends the wait of all parties with ErrReset.
func (b *Barrier) Break(ctx context.Context) error { return b.latch.Reset(ctx) }
