// SPDX-License-Identifier: Apache-2.0

package signalbox

import "github.com/signalbox-go/signalbox/internal/session"

// Place is where a lock stands in the one order of all locks of a session, in which package multilock takes its
// members: by the slot that its key has in a cluster, or would have in one, and then by the key. The locks' method Place
// answers it, and nothing else makes one: the zero Place is that of no lock.
type Place session.Place
