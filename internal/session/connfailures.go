// SPDX-License-Identifier: Apache-2.0

package session

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// failureMessages are what the log says of each kind of failure: when it begins, what to do, and when it is over.
//
//nolint:gochecknoglobals // a constant table
var failureMessages = map[wire.FailureKind]struct{ begins, advice, ends string }{
	wire.FailureReplacement: {
		"signalbox: no second connection to the server can be made; the session stays on the one that it has, also if the address leads to another server by now",
		"if credentials are refused, give the client those of now: AuthCredentialsFn returns them for each connection, a fixed password needs a new session",
		"signalbox: connections to the server are replaced again",
	},
	wire.FailureCredentials: {
		"signalbox: the function for credentials fails; open connections keep what they have, and stay, also if the address leads to another server by now",
		"see what the function reports; the server may end the connections when the credentials end",
		"signalbox: the function for credentials returns again",
	},
	wire.FailureFiles: {
		"signalbox: the files that the URL names for TLS cannot be used as they are; new connections use what they said before",
		"replace cert and key as a pair, and each file whole, by renaming; the server may refuse the old certificate",
		"signalbox: the files that the URL names for TLS can be used again",
	},
	wire.FailureSentinel: {
		"signalbox: a sentinel refuses the client, which learns of a failover from the other sentinels alone",
		"give the client the credentials of now: WithSentinelCredentials returns them for each connection, a fixed password needs a new session",
		"signalbox: the sentinel accepts the client again",
	},
	wire.FailurePrimary: {
		"signalbox: the primary that the sentinels name refuses the client, which stays with the one before",
		"create the client's user on each server: a replica does not get the users of its primary",
		"signalbox: the primary accepts the client",
	},
	wire.FailureLogin: {
		"signalbox: the server refuses the newer credentials of an open connection, which works with those that it has",
		"let the server know credentials before the function for credentials returns them; connections that break cannot be made anew until then",
		"signalbox: the server accepts the newer credentials",
	},
	wire.FailureEvent: {
		"signalbox: a sentinel sends what is no event; each ends a connection to it, and the client asks the sentinels for the primary",
		"see which program is at the address: a proxy that changes messages is none for sentinels",
		"signalbox: sentinels send events again",
	},
}

// connFailures logs what the client's connections cannot do while calls still succeed, once, and its end. A connection does not know
// its session. So the session asks for the failures of its client after a call, if any has begun or ended in the process.
type connFailures struct {
	session *Session
	seen    atomic.Uint64 // how many changes of failures there were in the process when they were last asked for

	mu struct {
		sync.Mutex
		since map[wire.Failure]time.Duration // when each failure was logged, on the monotonic clock
		next  time.Duration                  // the time before which there is nothing to find, since the client has no connection; 0 for none
	}
}

// check is called after each call. Mostly that costs a comparison.
func (cf *connFailures) check() {
	changes := wire.EventCount(wire.FailureChange)
	if cf.seen.Load() == changes {
		return
	}
	now := timers.Mono()
	cf.mu.Lock()
	defer cf.mu.Unlock()
	if cf.mu.next != 0 && now < cf.mu.next {
		return
	}
	found, known := wire.Failures(cf.session.client)
	if !known { // the client is not tuned, or has lost its connections, which is logged as an outage
		cf.mu.next = now + time.Second
		return
	}
	cf.seen.Store(changes)
	for failure, reason := range found {
		if _, logged := cf.mu.since[failure]; logged {
			continue
		}
		if cf.mu.since == nil {
			cf.mu.since = make(map[wire.Failure]time.Duration)
		}
		cf.mu.since[failure] = now
		words := failureMessages[failure.Kind]
		cf.session.Logs.log((*slog.Logger).Warn, words.begins, "address", failure.Address, "error", reason, "do", words.advice)
	}
	for failure, since := range cf.mu.since {
		if found[failure] == nil {
			delete(cf.mu.since, failure)
			cf.session.Logs.log((*slog.Logger).Info, failureMessages[failure.Kind].ends, "address", failure.Address, "after", (now - since).Round(time.Millisecond))
		}
	}
}

// longSleep is the shortest suspension after which connections have to prove themselves.
const longSleep = time.Second

// sleepRecovery does what a session has to do after its host was suspended, beside what the timers do by themselves: leases
// that are over end, and those that are due are renewed. A wall clock that was set forward seems the same, and costs
// the idle connections.
type sleepRecovery struct {
	session *Session
	entry   timers.Timer // closes the connections that stay silent
	silent  *timers.Collector[struct{}]
}

func (s *sleepRecovery) init(session *Session) {
	s.session = session
	s.entry.Init(s)
	s.silent = timers.NewCollector(session.Timers, func([]struct{}) {
		if again := wire.CloseSilentConnections(); again > 0 {
			session.Timers.Schedule(&s.entry, again)
		}
	})
	session.Timers.OnSuspended(s.slept)
}

// slept is called on the goroutine of the timers.
func (s *sleepRecovery) slept(sleep timers.Suspension) {
	if sleep.Lasted < longSleep {
		return
	}
	s.session.Logs.slept.add(observe.Labels{}, "lasted", sleep.Lasted.Round(time.Millisecond))
	wire.SuspectConnections(sleep.Before)
	s.session.Timers.Schedule(&s.entry, wire.ReplyAfterSleep)
}

// Fire implements timers.Firer. Closing a connection may block, and has a goroutine of its own.
func (s *sleepRecovery) Fire() { s.silent.Put(struct{}{}) }
