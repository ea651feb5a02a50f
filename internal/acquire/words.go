// SPDX-License-Identifier: Apache-2.0

package acquire

import "github.com/signalbox-go/signalbox/internal/acquire/queue"

// What both sources of grants give, by the names that it has in this package.
type (
	// Source is where the holds of one kind come from.
	Source = queue.Source
	// Queue is where one lock is waited for.
	Queue = queue.Asker
	// Place is the waiting of one goroutine.
	Place = queue.Waiter
	// Requeuer is an Attempt that can be released and queued again in one call.
	Requeuer = queue.Requeuer
	// Attempt is one hold id, and the hold that comes of it.
	Attempt = queue.Holder
)
