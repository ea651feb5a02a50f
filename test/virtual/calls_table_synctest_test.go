// SPDX-License-Identifier: Apache-2.0

package virtual_test

// callClass is what calls have in common that end alike.
type callClass int

const (
	tries    callClass = iota // TryLock and similar calls: one try
	guesses                   // a TryAcquire that returns false for every error
	waits                     // Lock and similar calls: until the context ends
	requests                  // one question or change, without another try
	insists                   // steps of a latch, which are repeated
	listens                   // the wait for a round that does not open, and other calls that only their context ends
	writes                    // a term's value, until the term is lost
	stores                    // the outcome of a once, until the lease is lost or the context has ended
	sets                      // what a member of a group says of itself, until the server knows it
	parts                     // the Leave of a member that owns shards
	unlocks                   // after the lease began, with no context
	inner                     // the same of a lease beside another one of its hold, which sends nothing
	leaves                    // Close of a session that has a lease left
)

// callFault is what happens to the server, or to the session, before or in the midst of a call.
type callFault string

const (
	healthy    callFault = "Healthy"
	held       callFault = "Held"       // by another session
	frozen     callFault = "Frozen"     // takes connections, and says nothing
	connecting callFault = "Connecting" // the same, and the connection broke
	refusing   callFault = "Refusing"   // connections
	cut        callFault = "Cut"        // the connection breaks when the reply is due, and the next one works
	proxied    callFault = "Proxied"    // the reply is lost, says a proxy in words of its own, and the next one is not
	closed     callFault = "Closed"     // the session
	loading    callFault = "Loading"    // the words of a server that refuses for now
	full       callFault = "Full"       // so are these
	denied     callFault = "Denied"     // the words of a right that is missing
	broken     callFault = "Broken"     // the words of a script that this server can never run
	redirected callFault = "Redirected" // a node of a cluster redirects a client of one server
	expired    callFault = "Expired"    // the credentials, for 3 s; they were right before
	over       callFault = "Over"       // frozen for longer than the lease lasts
	minority   callFault = "Minority"   // one of three servers of a redlock is frozen
)

// expectedEnds is how the calls of a class end after a fault: without a context that ends, and with one that
// has a deadline in 100 ms or is cancelled then.
//
// A cell names all that errors.Is finds in the error, of all errors that the library and package
// context export. "ended" stands for the error of the caller's context and its cause, "free" for
// what the call returns if the lock is free, "error" for any other error, "blocks" for a call that
// has not returned after half a minute. A call ends at once unless the cell has a time.
type expectedEnds struct {
	class       callClass
	fault       callFault
	never, ends string
}

var endings = []expectedEnds{
	{tries, healthy, "nil", "nil"},
	{tries, held, "ErrHeld", "ErrHeld"},
	{tries, frozen, "ErrNoReply in 4s", "ended in 100ms"},
	{tries, connecting, "ErrNoReply in 4s", "ended in 100ms"},
	{tries, refusing, "error", "error"},
	{tries, cut, "error", "error"},
	{tries, proxied, "error", "error"},
	{tries, closed, "ErrClosed", "ErrClosed"},
	{tries, loading, "ErrRefused", "ErrRefused"},
	{tries, full, "ErrRefused", "ErrRefused"},
	{tries, denied, "ErrDenied", "ErrDenied"},
	{tries, broken, "ErrUnsupported", "ErrUnsupported"},
	{tries, redirected, "ErrUnsupported", "ErrUnsupported"},
	{tries, expired, "ErrDenied", "ErrDenied"},
	{tries, minority, "nil", "nil"},

	{guesses, healthy, "nil", "nil"},
	{guesses, held, "error", "error"},
	{guesses, frozen, "error in 4s", "error in 100ms"},
	{guesses, connecting, "error in 4s", "error in 100ms"},
	{guesses, refusing, "error", "error"},
	{guesses, cut, "error", "error"},
	{guesses, proxied, "error", "error"},
	{guesses, closed, "error", "error"},
	{guesses, loading, "error", "error"},
	{guesses, full, "error", "error"},
	{guesses, denied, "error", "error"},
	{guesses, broken, "error", "error"},
	{guesses, redirected, "error", "error"},
	{guesses, expired, "error", "error"},

	{waits, healthy, "nil", "nil"},
	{waits, held, "blocks", "ErrHeld ended in 100ms"},
	{waits, frozen, "blocks", "ended in 100ms"},
	{waits, connecting, "blocks", "ended in 100ms"},
	{waits, refusing, "blocks", "ended in 100ms"},
	{waits, cut, "nil in 3s", "nil in 100ms"},
	{waits, proxied, "nil", "nil"},
	{waits, closed, "ErrClosed", "ErrClosed"},
	{waits, loading, "blocks", "ErrRefused ended in 100ms"},
	{waits, full, "blocks", "ErrRefused ended in 100ms"},
	{waits, denied, "ErrDenied", "ErrDenied"},
	{waits, broken, "ErrUnsupported", "ErrUnsupported"},
	{waits, redirected, "ErrUnsupported", "ErrUnsupported"},
	{waits, expired, "nil in 5s", "ErrDenied ended in 100ms"},
	{waits, minority, "nil", "nil"},

	{requests, healthy, "free", "free"},
	{requests, held, "nil", "nil"},
	{requests, frozen, "ErrNoReply in 4s", "ended in 100ms"},
	{requests, connecting, "ErrNoReply in 4s", "ended in 100ms"},
	{requests, refusing, "error", "error"},
	{requests, cut, "error", "error"},
	{requests, proxied, "error", "error"},
	{requests, closed, "ErrClosed", "ErrClosed"},
	{requests, loading, "ErrRefused", "ErrRefused"},
	{requests, full, "ErrRefused", "ErrRefused"},
	{requests, denied, "ErrDenied", "ErrDenied"},
	{requests, broken, "ErrUnsupported", "ErrUnsupported"},
	{requests, redirected, "ErrUnsupported", "ErrUnsupported"},
	{requests, expired, "ErrDenied", "ErrDenied"},
	{requests, minority, "free", "free"},

	{insists, healthy, "nil", "nil"},
	{insists, frozen, "blocks", "ended in 100ms"},
	{insists, connecting, "blocks", "ended in 100ms"},
	{insists, refusing, "blocks", "ended in 100ms"},
	{insists, cut, "nil in 3s", "nil in 100ms"},
	{insists, proxied, "nil", "nil"},
	{insists, closed, "ErrClosed", "ErrClosed"},
	{insists, loading, "blocks", "ErrRefused ended in 100ms"},
	{insists, full, "blocks", "ErrRefused ended in 100ms"},
	{insists, denied, "ErrDenied", "ErrDenied"},
	{insists, broken, "ErrUnsupported", "ErrUnsupported"},
	{insists, redirected, "ErrUnsupported", "ErrUnsupported"},
	{insists, expired, "nil in 4s", "ErrDenied ended in 100ms"},

	{listens, healthy, "blocks", "ended in 100ms"},
	{listens, frozen, "blocks", "ended in 100ms"},
	{listens, connecting, "blocks", "ended in 100ms"},
	{listens, refusing, "blocks", "ended in 100ms"},
	{listens, cut, "blocks", "ended in 100ms"},
	{listens, proxied, "blocks", "ended in 100ms"},
	{listens, closed, "ErrClosed", "ErrClosed"},
	{listens, loading, "blocks", "ErrRefused ended in 100ms"},
	{listens, full, "blocks", "ErrRefused ended in 100ms"},
	{listens, denied, "ErrDenied", "ErrDenied"},
	{listens, broken, "ErrUnsupported", "ErrUnsupported"},
	{listens, redirected, "ErrUnsupported", "ErrUnsupported"},
	{listens, expired, "blocks", "ErrDenied ended in 100ms"},

	// A term ends 5 s before its lease of 15 s does.
	{writes, healthy, "nil", "nil"},
	{writes, frozen, "ErrLost ErrNoReply in 10s", "ended in 100ms"},
	{writes, connecting, "ErrLost ErrNoReply in 10s", "ended in 100ms"},
	{writes, refusing, "ErrLost in 10s", "ended in 100ms"},
	{writes, cut, "nil in 3s", "nil in 100ms"},
	{writes, proxied, "nil", "nil"},
	{writes, closed, "ErrLost ErrClosed", "ErrLost ErrClosed"},
	{writes, loading, "ErrLost ErrRefused in 10s", "ErrRefused ended in 100ms"},
	{writes, full, "ErrLost ErrRefused in 10s", "ErrRefused ended in 100ms"},
	{writes, denied, "ErrDenied", "ErrDenied"},
	{writes, broken, "ErrUnsupported", "ErrUnsupported"},
	{writes, redirected, "ErrUnsupported", "ErrUnsupported"},
	{writes, expired, "nil in 4s", "ErrDenied ended in 100ms"},

	// A store is tried for a second after the lease of 30 s has ended. A call whose context ends returns at once: the store
	// is not its own.
	{stores, healthy, "nil", "nil"},
	{stores, frozen, "ErrUnconfirmed ErrNoReply in 31s", "ended in 100ms"},
	{stores, connecting, "ErrUnconfirmed ErrNoReply in 31s", "ended in 100ms"},
	{stores, refusing, "error in 31s", "ended in 100ms"},
	{stores, cut, "nil in 3s", "nil in 100ms"},
	{stores, proxied, "nil", "nil"},
	{stores, closed, "ErrStale ErrLost ErrClosed", "ErrStale ErrLost ErrClosed"},
	{stores, loading, "ErrRefused in 31s", "ErrRefused ended in 100ms"},
	{stores, full, "ErrRefused in 31s", "ErrRefused ended in 100ms"},
	{stores, denied, "ErrUnconfirmed ErrDenied in 31s", "ErrDenied ended in 100ms"},
	{stores, broken, "ErrUnsupported", "ErrUnsupported"},
	{stores, redirected, "ErrUnsupported", "ErrUnsupported"},
	{stores, expired, "nil in 4s", "ErrDenied ended in 100ms"},

	// A member calls again until the server replies, unless that can never help. It joins anew after a lost lease.
	{sets, healthy, "nil", "nil"},
	{sets, frozen, "blocks", "ended in 100ms"},
	{sets, connecting, "blocks", "ended in 100ms"},
	{sets, refusing, "blocks", "ended in 100ms"},
	{sets, cut, "nil in 3s", "nil in 100ms"},
	{sets, proxied, "nil", "nil"},
	{sets, closed, "ErrClosed", "ErrClosed"},
	{sets, loading, "blocks", "ErrRefused ended in 100ms"},
	{sets, full, "blocks", "ErrRefused ended in 100ms"},
	{sets, denied, "ErrDenied", "ErrDenied"},
	{sets, broken, "ErrUnsupported", "ErrUnsupported"},
	{sets, redirected, "ErrUnsupported", "ErrUnsupported"},
	{sets, expired, "nil in 4s", "ErrDenied ended in 100ms"},

	// A member that leaves gives up after a lease of 15 s without a reply, or at once if none can come.
	{parts, healthy, "nil", "nil"},
	{parts, frozen, "nil in 17s", "ended in 100ms"},
	{parts, connecting, "nil in 17s", "ended in 100ms"},
	{parts, refusing, "nil in 17s", "ended in 100ms"},
	{parts, cut, "nil in 3s", "nil in 100ms"},
	{parts, proxied, "nil", "nil"},
	{parts, closed, "nil", "nil"},
	{parts, loading, "nil in 17s", "ErrRefused ended in 100ms"},
	{parts, full, "nil in 17s", "ErrRefused ended in 100ms"},
	{parts, denied, "nil in 17s", "ErrDenied ended in 100ms"},
	{parts, broken, "nil", "nil"},
	{parts, redirected, "nil", "nil"},
	{parts, expired, "nil in 4s", "ErrDenied ended in 100ms"},

	{unlocks, healthy, "nil", "nil"},
	{unlocks, frozen, "ErrUnconfirmed ErrNoReply in 1s", "ErrUnconfirmed ErrNoReply in 1s"},
	{unlocks, connecting, "ErrUnconfirmed ErrNoReply in 1s", "ErrUnconfirmed ErrNoReply in 1s"},
	{unlocks, refusing, "ErrUnconfirmed", "ErrUnconfirmed"},
	{unlocks, cut, "ErrUnconfirmed", "ErrUnconfirmed"},
	{unlocks, proxied, "ErrUnconfirmed", "ErrUnconfirmed"},
	{unlocks, closed, "ErrLost ErrClosed", "ErrLost ErrClosed"},
	{unlocks, loading, "ErrUnconfirmed ErrRefused", "ErrUnconfirmed ErrRefused"},
	{unlocks, denied, "ErrUnconfirmed ErrDenied", "ErrUnconfirmed ErrDenied"},
	{unlocks, broken, "ErrUnconfirmed ErrUnsupported", "ErrUnconfirmed ErrUnsupported"},
	{unlocks, redirected, "ErrUnconfirmed ErrUnsupported", "ErrUnconfirmed ErrUnsupported"},
	{unlocks, expired, "ErrUnconfirmed ErrDenied", "ErrUnconfirmed ErrDenied"},
	{unlocks, over, "ErrLost", "ErrLost"},
	{unlocks, minority, "nil", "nil"},

	{inner, healthy, "nil", "nil"},
	{inner, frozen, "nil", "nil"},
	{inner, connecting, "nil", "nil"},
	{inner, refusing, "nil", "nil"},
	{inner, closed, "ErrLost ErrClosed", "ErrLost ErrClosed"},
	{inner, loading, "nil", "nil"},
	{inner, denied, "nil", "nil"},
	{inner, broken, "nil", "nil"},
	{inner, redirected, "nil", "nil"},
	{inner, expired, "nil", "nil"},
	{inner, over, "ErrLost", "ErrLost"},

	// Without a context that ends Close waits for the close grace, 5 s, and a second for the
	// releases.
	{leaves, healthy, "error in 5s", "ended in 100ms"},
	{leaves, frozen, "error in 6s", "ended in 1100ms"},
	{leaves, connecting, "error in 6s", "ended in 1100ms"},
	{leaves, refusing, "error in 6s", "ended in 1100ms"},
	{leaves, loading, "error in 6s", "ended in 1100ms"},
	{leaves, denied, "error in 6s", "ended in 1100ms"},
	{leaves, broken, "error in 6s", "ended in 1100ms"},
	{leaves, redirected, "error in 6s", "ended in 1100ms"},
	{leaves, expired, "error in 6s", "ended in 1100ms"},
}
