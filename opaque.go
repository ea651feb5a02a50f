// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
)

// What the types of this package are made of. Their documentation shows these names, which say that there is nothing to see; the
// packages of the module convert to the types behind them.
type (
	opaqueSession = session.Handle
	opaqueLease   = hold.Lease
	opaqueLocker  = hold.SyncLocker
	opaqueLayout  = session.LayoutHandle
	opaquePlace   = session.PlaceHandle

	sessionSettings = session.Settings
	lockSettings    = session.LockSettings
)
