// SPDX-License-Identifier: Apache-2.0

package session

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// troubleMessages are what the log says of each kind of trouble: when it begins, what to do, and when it is over.
//
//nolint:gochecknoglobals // a constant table
var troubleMessages = map[wire.TroubleKind]struct{ begins, advice, ends string }{
	wire.TroubleReplacement: {
		"signalbox: no second connection to the server can be made; the session stays on the one that it has, also if the address leads to another server by now",
		"if credentials are refused, give the client those of now: AuthCredentialsFn returns them for each connection, a fixed password needs a new session",
		"signalbox: connections to the server are replaced again",
	},
	wire.TroubleCredentials: {
		"signalbox: the function for credentials fails; open connections keep what they have, and stay, also if the address leads to another server by now",
		"see what the function reports; the server may end the connections when the credentials end",
		"signalbox: the function for credentials returns again",
	},
	wire.TroubleFiles: {
		"signalbox: the files that the URL names for TLS cannot be used as they are; new connections use what they said before",
		"replace cert and key as a pair, and each file whole, by renaming; the server may refuse the old certificate",
		"signalbox: the files that the URL names for TLS can be used again",
	},
}

// connTroubles logs what the client's connections cannot do while calls still succeed, once, and its end. A connection does not know
// its session. So the session asks for the troubles at its servers after a call, if any has begun or ended in the process.
type connTroubles struct {
	session *Session
	seen    atomic.Uint64 // what wire.TroubleChanges returned last

	mu struct {
		sync.Mutex
		since map[wire.Trouble]time.Duration // when each trouble was logged, on the monotonic clock
		next  time.Duration                  // until when there is no use in asking, since the client has no connection; 0 for never
	}
}

// check is called after each call. Mostly that costs a comparison.
func (t *connTroubles) check() {
	changes := wire.TroubleChanges()
	if t.seen.Load() == changes {
		return
	}
	now := clock.Mono()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.next != 0 && now < t.mu.next {
		return
	}
	found, known := wire.Troubles(t.session.client.Nodes())
	if !known { // the client is not tuned, or has lost its connections, which is logged as an outage
		t.mu.next = now + time.Second
		return
	}
	t.seen.Store(changes)
	for trouble, reason := range found {
		if _, logged := t.mu.since[trouble]; logged {
			continue
		}
		if t.mu.since == nil {
			t.mu.since = make(map[wire.Trouble]time.Duration)
		}
		t.mu.since[trouble] = now
		words := troubleMessages[trouble.Kind]
		t.session.log((*slog.Logger).Warn, words.begins, "address", trouble.Address, "error", reason, "do", words.advice)
	}
	for trouble, since := range t.mu.since {
		if found[trouble] == nil {
			delete(t.mu.since, trouble)
			t.session.log((*slog.Logger).Info, troubleMessages[trouble.Kind].ends, "address", trouble.Address, "after", (now - since).Round(time.Millisecond))
		}
	}
}
