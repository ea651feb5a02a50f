// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"strings"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

//nolint:gochecknoglobals // a constant table
var setnx = Layout{
	Name:     "SET NX",
	Names:    names.SetNX,
	Hold:     newNativeHold,
	Session:  setnxSession,
	Describe: scripts.SetNXDescribe,
	WaiterID: "0", // as in Redisson's layout: the message of every release
	Lock: &Exclusive{
		Kind: Kind{
			RegistryName: "reentrant, SET NX",
			Keys: func(n names.Set, buffer []string) Keys {
				return Keys{Holder: n.Holder, All: append(buffer, n.Holder), Channel: n.Unlocked}
			},
			Renew: scripts.SetNXRenew,
			Retry: &Retry{
				Acquire: scripts.SetNXAcquire, Release: scripts.SetNXRelease, Poll: scripts.SetNXPoll,
				HandsOver: true, Silent: true,
			},
		},
		CompatibleKinds: "r",
		Force:           scripts.SetNXForce,
	},
}

// holdCharacters are those of a hold in the library's own layout.
const holdCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// SetNX returns the layout of clients that write a lock by SET with NX and PX: the key is the name, and its
// value is the hold. docs/migration.md lists those clients.
func SetNX() *Layout { return &setnx }

// setnxSession returns the session of a hold of this library, and nothing for the values of other clients.
func setnxSession(hold string) string {
	if len(hold) != nativeHold || strings.Trim(hold, holdCharacters) != "" {
		return ""
	}
	return nativeSession(hold)
}
