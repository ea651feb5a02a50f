// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// The client connects inside of a call, and does not check the call's context meanwhile. If a
// server accepts connections and does not reply, the client gives up after twice the
// Dialer.Timeout. So a call whose connection may have to be made runs on a goroutine of its own,
// and its caller returns when its context ends. The outcome is unknown then, as for any call
// without a reply. The client checks the context before it sends: a call that its caller has left
// sends nothing any more.
//
// A call that finds its connection established runs on its caller's goroutine, and the client itself watches the
// context. A connection counts as established if a call got a reply since the last connection was
// closed. Connections of a Connector are counted when they are closed, before the client picks another one. The count
// is for the whole process, because a connection does not know its client. The price is a goroutine
// for one call after each closed connection.

// closedConns is how many connections of a Connector were closed in this process. It divides time into epochs: in one epoch no
// connection was closed.
//
//nolint:gochecknoglobals // a connection is made before the Runner whose calls it serves
var closedConns atomic.Uint64

// connEpoch is the epoch in which the last call that got a reply began: closedConns at that time, plus one. It is 0 if a call
// has failed since.
type connEpoch = atomic.Uint64

func (r *Runner) connEpochOf(command rueidis.Completed) *connEpoch {
	return &r.connEpochs[int(command.Slot()%slots)%len(r.connEpochs)]
}

// areConnected reports whether the connections for all these commands are established in this epoch.
func (r *Runner) areConnected(commands []rueidis.Completed, epoch uint64) bool {
	return !slices.ContainsFunc(commands, func(command rueidis.Completed) bool { return r.connEpochOf(command).Load() != epoch })
}

// recordConnected records in last how a call ended that began in epoch.
func recordConnected(last *connEpoch, epoch uint64, err error) {
	switch {
	case err != nil && !IsReplyError(err):
		last.Store(0)
	case last.Load() != epoch:
		last.Store(epoch)
	}
}

// detachedCalls counts the calls that run detached from their callers, until Close.
type detachedCalls struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// start runs a call on a new goroutine. Close does not wait for calls that start after it.
func (d *detachedCalls) start(run func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		go run()
		return
	}
	d.running.Go(run)
}

// Close waits for the calls whose callers have left them. A connection that the client makes while
// it is being closed stays open for ever, so the client must not be closed before.
func (r *Runner) Close() {
	r.Span.cancel()
	r.detached.mu.Lock()
	r.detached.closed = true
	r.detached.mu.Unlock()
	r.detached.running.Wait()
}

// detach runs a call on a new goroutine, and returns when ctx ends, even if the call has not. It returns a
// reply that has come by then.
func detach[T any](ctx context.Context, all *detachedCalls, run func() T, noReply func(err error) T) T {
	ended := make(chan T, 1)
	all.start(func() { ended <- run() })
	select {
	case outcome := <-ended:
		return outcome
	case <-ctx.Done():
	}
	select {
	case outcome := <-ended:
		return outcome
	default:
		return noReply(errs.OfContext(ctx))
	}
}

// errConnClosed says that the client gave a connection up while it waited there for the reply to a call. Whether the call was
// executed is unknown.
var errConnClosed = errors.New("the client left the server that was asked")

// isClosed reports whether the client was closed, after an error said so. The client returns the same error for
// a connection that it closed itself, to a primary that was replaced or a node that was removed. A closed
// client returns it for every request.
func (r *Runner) isClosed(ctx context.Context) bool {
	// Not the client's own PING, which it repeats until it has a reply.
	ping := r.client.Do(ctx, r.client.B().Arbitrary("PING").Build())
	return errors.Is(ping.NonRedisError(), rueidis.ErrClosing)
}

// replaceClosed replaces outcomes that say that the client was closed by errConnClosed, if the client is open.
func (r *Runner) replaceClosed(ctx context.Context, outcomes []Outcome) {
	var closed []*Outcome
	for i := range outcomes {
		if errors.Is(outcomes[i].Err, errs.ErrClosed) {
			closed = append(closed, &outcomes[i])
		}
	}
	if len(closed) == 0 || r.isClosed(ctx) {
		return
	}
	for _, outcome := range closed {
		outcome.Err = errConnClosed
	}
}
