// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"iter"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// kindMember is the member by which the key of a semaphore says its kind.
const kindMember = "sb1s"

// Holder describes a hold of permits, as the server saw it at one moment. It is for people and for
// monitoring. Only a lease says that something is held.
type Holder struct {
	// Permits is how many it holds. A session that acquired several times has as many holds.
	Permits int
	// Label is the label of its session; see signalbox.WithLabel. It is not verified.
	Label string
	// Session is the id of its session.
	Session string
	// Until is when the permits are free unless the lease is renewed, by the server's clock.
	Until time.Time
}

// Holders returns the holders of permits, in all processes, in the order in which their holds end. One round
// trip for 100 holds. They are renewed and released meanwhile, so together they are a picture and no promise.
// An error ends the sequence.
func (s *Semaphore) Holders(ctx context.Context) iter.Seq2[Holder, error] {
	return func(yield func(Holder, error) bool) {
		err := s.root().CheckArgs()
		if err == nil {
			err = s.single.EachHold(ctx, s.table.List, s.single.Names.Holder, kindMember, func(_ *proto.HoldsListed, hold proto.ListedHold) bool {
				return yield(s.holderOf(hold.Name, hold.Ends), nil)
			})
		}
		if err != nil {
			yield(Holder{}, s.root().Explain("holders", err))
		}
	}
}

// holderOf returns the holder with the hold of that name.
func (s *Semaphore) holderOf(name string, until wire.Stamp) Holder {
	var h Holder
	h.Permits, h.Label, h.Session = s.table.ParseHold(s.single.Session.ID(), name)
	if until > 0 {
		h.Until = until.Time()
	}
	return h
}
