// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Granter acquires locks of one kind for one session: by the server's queue (this package), or by trying again (package
// retry). Package acquire chooses.
type Granter interface {
	session.KindRegistry
	// Use returns the Requester for the lock with these keys, and counts the caller as a user of it.
	Use(keys *LockKeys) Requester
	// ReadGrants reads the reply to a script that granted the lock, for attempts of this session.
	ReadGrants(holder string, reply wire.Reply)
}

// Requester makes requests for one lock.
type Requester interface {
	// Done counts a user out.
	Done()
	// Try acquires the lock if that is possible at once.
	Try(ctx context.Context, request *Request) (ServerHold, error)
	// Prepare returns a WaitingRequest, which may be made in storage. Nothing is sent before its Join.
	Prepare(request *Request, storage *QueuedRequest) WaitingRequest
}

// WaitingRequest is one request that can wait. One goroutine at a time waits with it, and another one may take over.
type WaitingRequest interface {
	// Join blocks until the session is in the queue, has tried, or was granted the lock.
	Join(ctx context.Context) (isGranted bool, err error)
	// Wait blocks, after Join, until the lock is granted, or returns why it is not. The ticket is kept until Leave.
	Wait(ctx context.Context) error
	// Ended returns the error for a goroutine whose ctx has ended while another one waited for both.
	Ended(ctx context.Context) error
	// Leave ends the ticket. It returns the hold if one was granted, even in the same instant, or nil.
	Leave() ServerHold
}

// ServerHold is one hold id, and the server's hold with that id.
type ServerHold interface {
	// Grant returns what the server gave.
	Grant() Grant
	// Name returns the name under which the server records the hold.
	Name() string
	// Begin registers the hold in this process. From now on it can be evicted.
	Begin(localHold LocalHold)
	// Extended records, before Begin, that the hold was extended by a call that was sent at sent.
	Extended(life time.Duration, sent clock.Instant)
	// Release releases the lock, and waits for the reply until ctx ends. lastUsed is the stamp of the last token that was
	// used. Release returns false if the hold no longer had the lock. After an error the release is repeated in the
	// background until the hold has expired, which takes expiresIn at most, or longer if a ticket may be left.
	Release(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error)
	// Abandon releases the lock, or withdraws the request, off the caller's path.
	Abandon()
	// Swap replaces this hold by one with that request, using script.
	Swap(ctx context.Context, script *scripts.Script, request *Request) (ServerHold, error)
}
