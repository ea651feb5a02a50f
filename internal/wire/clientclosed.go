// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

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
