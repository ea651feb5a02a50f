// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long the hook of a observer may block before the observers behind it are called without it.
const patience = 10 * time.Millisecond

// each calls call with the number of each observer, and returns when all calls have returned.
func (o *Observer) each(call func(i int)) {
	if len(o.hooks) == 1 {
		call(0)
		return
	}
	r := &round{call: call, hooks: int32(len(o.hooks))} //nolint:gosec // a program passes a few
	r.left.Add(len(o.hooks))
	defer r.left.Wait() // deferred: also if a call ends the goroutine
	r.run()
}

// round is the calls of one hook of all observers. One goroutine makes them in order. When it needs longer than patience, another one
// makes those that are left: a observer that blocks has its goroutine for itself.
type round struct {
	call  func(i int)
	hooks int32
	next  atomic.Int32   // the next observer to call
	left  sync.WaitGroup // the calls that have not returned
}

func (r *round) run() {
	takeover := time.AfterFunc(patience, r.run) //nolint:forbidigo // it is stopped; a hook has no timers of a session
	defer takeover.Stop()
	for i := r.next.Add(1) - 1; i < r.hooks; i = r.next.Add(1) - 1 {
		r.callOne(int(i))
	}
}

func (r *round) callOne(i int) {
	returned := false
	defer func() {
		if !returned {
			r.run() // the call ends the goroutine: the others are called before that
		}
	}()
	defer r.left.Done()
	r.call(i)
	returned = true
}
