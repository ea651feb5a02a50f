// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// maxTextWaits is the number of times that a call waits for another call to send the text. In a cluster each node
// learns the script by itself.
const maxTextWaits = 8

// textsInFlight records the calls that send texts: for each script, by its digest, the end of the last call that sent it.
type textsInFlight struct {
	mu    sync.Mutex
	ended map[string]chan struct{}
}

// next returns a channel for the caller to close after it has sent the text of a script. If another
// caller has sent it since seen, or is sending it, next returns the end of that call instead. seen
// is nil or an end that next returned before.
func (t *textsInFlight) next(digest string, seen <-chan struct{}) (own chan<- struct{}, other <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.ended[digest]; last != nil && last != seen {
		return nil, last
	}
	if t.ended == nil {
		t.ended = make(map[string]chan struct{})
	}
	end := make(chan struct{})
	t.ended[digest] = end
	return end, nil
}

// sendText sends a call whose script the server did not know. One text of a script is under way at a time.
// The other calls wait for its end and are sent by the digest again, since the server may refuse a thousand
// calls at once.
func (r *Runner) sendText(ctx context.Context, call Call) rueidis.RedisResult {
	var seen <-chan struct{}
	for range maxTextWaits {
		own, other := r.inFlight.next(call.Script.SHA1, seen)
		if own != nil {
			defer close(own)
			break
		}
		select {
		case <-other:
		case <-ctx.Done(): // the server has refused the call, and nothing was sent since
			return rueidis.NewResult(rueidis.RedisMessage{}, fmt.Errorf("%w: %w", ErrNotSent, errs.OfContext(ctx)))
		}
		if result := r.client.Do(ctx, r.byDigest(call)); !noScript(result) {
			return result
		}
		seen = other
	}
	return r.client.Do(ctx, r.byText(call))
}
