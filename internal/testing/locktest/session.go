// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Tuned makes a client tuned, and quick to give up a silent connection: such a connection costs a test one second
// instead of two.
func Tuned(o *rueidis.ClientOption) {
	o.ConnWriteTimeout = time.Second
	signalbox.Tune(o)
}

// Steady makes a client for tests without faults: it tolerates a server that is silent for as long as a test does.
func Steady(o *rueidis.ClientOption) {
	o.ConnWriteTimeout, o.Dialer.Timeout = redistest.Patience, redistest.Patience
	signalbox.Tune(o)
}

// Session returns a session to the server or the proxy. Its Unlock waits longer than by default, for a busy machine. The
// session is closed when the test ends, without a grace: that ends leases that are left.
func Session(tb testing.TB, to redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return SessionOf(tb, to.Client(tb, Tuned), options...)
}

// SessionOf is Session with a client that the test has made.
//
// Its leases have their whole length from the start, unless the test sets their first length. By default that is 3 s, and a
// busy machine can keep a process from renewing for longer: it did, with the race detector and 18 programs that
// wanted two processors.
func SessionOf(tb testing.TB, client rueidis.Client, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	whole := signalbox.WithDefaults(signalbox.WithFirstLease(time.Hour))
	s := signalbox.NewSession(client, append([]signalbox.SessionOption{whole}, options...)...)
	(*session.Handle)(s).Session().UnlockPatience = redistest.Patience
	tb.Cleanup(func() {
		_ = s.Close(Ended()) // says that leases were left, which the test knows
	})
	return s
}

// LearnSlots makes the session find out whether one script may have keys of several slots. Otherwise its first call for several
// locks does so.
func LearnSlots(s *signalbox.Session) bool {
	return (*session.Handle)(s).Session().Runner.Span.CertainlySpansSlots(context.Background())
}

// Undoing returns how many calls of unknown outcome the session is still undoing in the background.
func Undoing(s *signalbox.Session) int { return (*session.Handle)(s).Session().Undoer.Pending() }

// Channels returns how many channels the session listens to.
func Channels(s *signalbox.Session) int { return (*session.Handle)(s).Session().Dispatch.Channels() }

// IgnoreUnconfirmed ignores the error of an Unlock without a reply in time. Even without a fault that happens on a busy machine, and
// the release is repeated in the background.
func IgnoreUnconfirmed(err error) error {
	if errors.Is(err, signalbox.ErrUnconfirmed) {
		return nil
	}
	return err
}
