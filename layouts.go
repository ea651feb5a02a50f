// SPDX-License-Identifier: Apache-2.0

package signalbox

import "github.com/signalbox-go/signalbox/internal/session"

// Layout is how a lock is stored on the server: Native, or a layout of other clients. Such a layout has a package of its
// own, whose function Layout returns it; docs/migration.md lists them. The zero value is Native.
type Layout session.LayoutHandle

// WithLayout sets how the lock is stored on the server, so that other clients can share it. Set it on
// one lock, or on all locks of a session by WithDefaults; WithLayout(Native()) cancels such a default
// for one lock. All processes that share a lock must agree on its layout. A kind that does not have the
// layout returns ErrBadOption.
func WithLayout(l Layout) LockOption {
	return func(s *session.LockSettings) {
		in, err := session.LayoutHandle(l).Layout()
		if err != nil {
			s.Fail(err)
			return
		}
		s.GiveLayout(in)
	}
}

// Native is the library's own layout, which is the default. As an option it also cancels a default of
// semaphore.Plain.
func Native() Layout { return Layout{} }
