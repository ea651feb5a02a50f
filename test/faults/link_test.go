// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// link is a session with a wire of its own that can fail.
type link struct {
	proxy   *redistest.Proxy
	session *signalbox.Session
}

// links answers n of them, whose wires count what match names.
func (w *world) links(t *testing.T, n int, match redistest.Match) []link {
	t.Helper()
	links := make([]link, n)
	for i := range links {
		proxy := redistest.NewProxy(t, w.server.Addr())
		proxy.SetMatch(match)
		links[i] = link{proxy, locktest.Impatient(locktest.Session(t, proxy))}
	}
	return links
}

// settled says why nothing is over yet for a lock that was given back: a settlement, a hold,
// another client that cannot have it.
func (w *world) settled(name string, s *signalbox.Session) error {
	if !redistest.Became(settled, func() bool { return locktest.Settling(s) == 0 && w.view.Free(name) }) {
		h, err := w.view.Hold(name)
		return errors.Join(fmt.Errorf("%d settlements, on the server %+v", locktest.Settling(s), h), err)
	}
	lease, err := w.kind.rival.New(w.other, name).TryLock(context.Background())
	if err != nil {
		return err
	}
	return locktest.Confirmed(lease.Unlock())
}

// shortly answers a context that ends soon.
func shortly(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 100*time.Millisecond)
}
