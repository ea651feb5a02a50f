// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
)

// Barrier lets parties of any processes continue together, again and again: each phase is a round of one
// latch. A round does not open before all have arrived, so that none can be a phase behind.
type Barrier struct {
	latch   *countdown.Latch
	parties int
}

// NewBarrier returns the barrier of that name.
func NewBarrier(s *signalbox.Session, name string, parties int) *Barrier {
	return &Barrier{latch: countdown.New(s, name), parties: parties}
}

// Await says that a party has arrived, and waits for all the others. A party that was started again while others were
// still to come arrives once more, and counts once. Where all had come by then it arrives for the next phase: who must
// know that keeps the ID of the round with its work, and asks Latch.RoundOf of that first. ErrReset says that a party
// broke the barrier, or gave up while it began the phase, and so does ErrNoRound to who was just arriving.
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
