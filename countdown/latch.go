// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Latch is one name, as one session sees it. It holds nothing itself: what is counted is a Round.
// Latches of one name in one session are the same latch. It is safe for concurrent use. New makes one; the zero Latch
// is of no use.
type Latch struct {
	base     acquire.Base
	registry *latchRegistry
	keys     latchKeys
	keep     time.Duration
}

// latchKeys are the key and the channel of a latch.
type latchKeys struct {
	latch, ended string
	slot         uint16
}

// New returns the latch name of the session. It sends nothing and never fails: if the name or an
// option is not valid, every call returns the error, and so does Check. A latch shares nothing with
// locks of its name. Its options are Keep, signalbox.WithLayout and signalbox.WithClass; any other option is
// ErrBadOption.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Latch {
	l := &Latch{base: acquire.Make(s, name, &proto.Countdown, options)}
	if l.base.Err != nil {
		return l
	}
	l.keep = cmp.Or(l.base.Keep, DefaultKeep)
	n, kind := l.base.Names, l.base.Layout.Latch
	l.keys = latchKeys{latch: kind.Key(n), ended: kind.EndedChannel(n), slot: n.Slot}
	if wire.Tag(l.keys.latch) != wire.Tag(l.keys.ended) {
		l.base.RefuseInCluster(fmt.Errorf("%w: the latch %q and its channel stand in two slots of the cluster: it must have no braces", errs.ErrBadName, l.base.Name))
	}
	l.registry = registryOf(l.base.Session, l.base.Layout)
	return l
}

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (l *Latch) Check() error { return l.root().Check() }

// Start begins a round that opens when n different ids are counted down. It returns ErrRunning while
// another round is running. n is from 1 to MaxCount.
//
// While the server is away, or refuses for now, Start waits until ctx ends. A Start without a reply is
// sent again, and counts once. One that returned an error leaves no round behind: a round that the
// server may have begun is reset in the background.
func (l *Latch) Start(ctx context.Context, n int) (Round, error) {
	r, err := l.start(ctx, n)
	return r, l.root().Explain("start", err)
}

// Round joins the newest round: the one that is running, or the last one if it has opened, whose Wait
// returns at once. If there was no round yet it returns ErrNoRound. One round trip, without a second try.
//
// Another round may become the newest meanwhile. A worker for a certain round should get its ID, and join
// by RoundOf.
func (l *Latch) Round(ctx context.Context) (Round, error) {
	r, err := l.newest(ctx)
	return r, l.root().Explain("round", err)
}

// RoundOf returns the round with that ID, as Round.ID returned it to the starter. It sends nothing. An
// id that none of the last 33 rounds had counts as that of a round that was lost, or is over. With 0, or more
// than 16 digits, every call of the round returns ErrBadOption.
func (l *Latch) RoundOf(id uint64) Round {
	return Round{latch: l, stamp: wire.Stamp(min(id, maxStamp+1))} //nolint:gosec // it fits
}

// Reset ends the running round without opening it: its waiters, and calls that count down, get
// ErrReset. If no round is running it returns nil; a round that has opened stays open. It resets the
// round that it found, and no later one, however often it is sent. Two round trips. While the server is
// away, or refuses for now, Reset waits until ctx ends.
func (l *Latch) Reset(ctx context.Context) error {
	return l.root().Explain("reset", l.reset(ctx))
}

// root returns the base of the lock. A nil Latch has an empty one, whose calls return ErrBadOption.
func (l *Latch) root() *acquire.Base {
	if l == nil {
		return new(acquire.Base)
	}
	return &l.base
}

func (l *Latch) newest(ctx context.Context) (Round, error) {
	h, err := l.fetchHistory(ctx)
	if err != nil {
		return Round{}, err
	}
	if h.newest.stamp == 0 || h.newest.state == wasReset {
		return Round{}, errs.ErrNoRound
	}
	return Round{latch: l, stamp: h.newest.stamp}, nil
}

const (
	// MaxCount is the greatest number that a round counts down from. One key holds its ids until it opens.
	MaxCount = 10_000_000
	// MaxID is the length of the longest id, in bytes.
	MaxID = 512
	// DefaultKeep is how long a round is kept after its last use unless Keep says otherwise.
	DefaultKeep = 24 * time.Hour
	// minKeep is more than the pause between two polls of any waiter, which keep the round.
	minKeep = time.Minute
	maxKeep = 30 * 24 * time.Hour
)

// Keep sets how long the server keeps the rounds that this latch starts after their last use, in
// whatever process: a count-down, a Count, or a poll of a waiter. After a Count or a poll it may be
// a sixtieth less. A round that was not used for that long is forgotten. d is from a minute to 30
// days; 24 hours by default. In a layout of others Keep is ErrBadOption: keys there never end.
func Keep(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionKeep, session.CheckRange("to keep rounds for %v", d, minKeep, maxKeep), func(l *session.LockSettings) { l.Keep = d })
}
