// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"time"
)

// Watcher is notified of the outcome of every call of a script. Its methods are called by many goroutines, and must not block.
// They have the first key of the call, and not the call, whose slices are on its caller's stack.
type Watcher interface {
	// Replied says that the server executed a script.
	Replied(script string, key string)
	// Failed says that a call that began at began, on the monotonic clock, has no reply, or one that is an error. ended says
	// that its caller's context has ended.
	Failed(script string, key string, began time.Duration, err error, ended bool)
}

// Watch makes w the watcher of r. Call it once, before any call.
func (r *Runner) Watch(w Watcher) { r.watcher = w }

// notifyWatcher notifies the watcher of the outcome of a call with these keys, and returns its error. It does not
// take the call, whose arguments would be on the heap then.
func (r *Runner) notifyWatcher(ctx context.Context, script string, keys []string, began time.Duration, err error) error {
	switch {
	case r.watcher == nil || script == "" || len(keys) == 0:
	case err == nil:
		r.watcher.Replied(script, keys[0])
	default:
		r.watcher.Failed(script, keys[0], began, err, ctx.Err() != nil)
	}
	return err
}

// digest returns the digest of the script, or "".
func (c *Call) digest() string {
	if c.Script == nil {
		return ""
	}
	return c.Script.SHA1
}
