// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// Handle is a Session as users have it. signalbox.Session is defined over it, and not over Session: users would
// see the fields.
type Handle struct{ session *Session }

// Handle returns a new handle of s.
func (s *Session) Handle() *Handle { return &Handle{s} }

// Session returns the session, nil for a nil or a zero Handle.
func (h *Handle) Session() *Session {
	if h == nil {
		return nil
	}
	return h.session
}

// PlaceHandle is a Place as users have it. signalbox.Place is defined over it.
type PlaceHandle struct{ place Place }

// Handle returns a handle of p.
func (p Place) Handle() PlaceHandle { return PlaceHandle{p} }

// Place returns the place.
func (h PlaceHandle) Place() Place { return h.place }

// LayoutHandle is a layout as users have it. signalbox.Layout is defined over it. The zero LayoutHandle is that of the
// library's own layout.
type LayoutHandle struct {
	layout *proto.Layout
	err    error
}

// NewLayoutHandle returns a handle of l, or of the error in the options of a layout.
func NewLayoutHandle(l *proto.Layout, err error) LayoutHandle { return LayoutHandle{l, err} }

// Layout returns the layout, or what is wrong with its options.
func (h LayoutHandle) Layout() (*proto.Layout, error) {
	return cmp.Or(h.layout, proto.Native()), h.err
}
