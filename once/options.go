// SPDX-License-Identifier: Apache-2.0

package once

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

const (
	// MaxValue is the size of the largest value, in bytes.
	MaxValue = 1 << 20
	// DefaultKeep is how long an outcome is kept unless Keep says otherwise.
	DefaultKeep = 24 * time.Hour

	// DefaultLinger is how long a function continues without a caller unless Linger says otherwise.
	DefaultLinger = session.DefaultLinger

	minKeep = time.Second
	maxKeep = 30 * 24 * time.Hour
)

// Keep sets how long the server keeps the outcome after it was stored: 24 hours by default. After that
// the next Do runs the function again. So d must be longer than a caller for the same period can be
// late. d is from 1 s to 30 days. The option of the call that ran the function counts.
func Keep(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionKeepOutcome, session.CheckRange("to keep an outcome for %v", d, minKeep, maxKeep), func(l *session.LockSettings) {
		l.Outcome = d
	})
}

// Linger sets how long a function may continue after every call of its session that waited for it has returned,
// because its context ended: 5 minutes by default. Then the function's context ends. A call for the key that
// comes meanwhile waits for the function, and starts the time anew when it leaves. With 0 the function's
// context ends with the last call. d is from 0 to 30 days. The option of the call that runs the function counts.
//
// Linger does not bound a function for which a call waits. signalbox.WithMaxHold does.
func Linger(d time.Duration) signalbox.LockOption {
	var err error
	if d < 0 || d > maxKeep {
		err = fmt.Errorf("%w: to let a function continue for %v without a caller: it must be from 0 to %v", errs.ErrBadOption, d, maxKeep)
	}
	return session.Option(proto.OptionLinger, err, func(l *session.LockSettings) { l.Linger = d })
}
