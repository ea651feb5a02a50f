// SPDX-License-Identifier: Apache-2.0

// Command http is a service of two processes that work on one order at a time. A request for an order that is being
// worked on gets 423 Locked, with the name of the process that has it, and a time after which to try again.
package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

const (
	patience = 200 * time.Millisecond // how long a request waits for another one
	crowd    = 10                     // how many requests of this process wait for one order
	grace    = 20 * time.Second       // how long the requests that run may take when the process ends
)

func main() { demo.Main(show) }

// routes are those of one process. ship is the work: it must stop when its context ends.
func routes(session *signalbox.Session, ship func(ctx context.Context, order string, token uint64) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/shipment", func(w http.ResponseWriter, r *http.Request) {
		mu := reentrant.New(session, "order/"+r.PathValue("order"), signalbox.WithMaxWaiters(crowd))
		wait, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		lease, err := mu.Lock(wait)
		if err != nil {
			refuse(w, r, mu, err)
			return
		}
		defer lease.Unlock() // also if ship panics

		// This context ends with the request, and when the lease can no longer be trusted.
		ctx := lease.Bind(r.Context())
		if err := ship(ctx, r.PathValue("order"), lease.Token()); err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not shipped: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// refuse replies to a request that did not get the lock.
func refuse(w http.ResponseWriter, r *http.Request, mu *reentrant.Lock, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	w.Header().Set("Retry-After", "1")
	switch {
	case errors.Is(err, signalbox.ErrBusy): // crowd
		http.Error(w, "too many requests for this order", http.StatusTooManyRequests)
	case errors.Is(err, signalbox.ErrHeld):
		text := "another process works on this order"
		// The label is what the session of the holder says of itself: "host:pid" by default.
		if holder, err := mu.Holder(r.Context()); err == nil && holder.Label != "" {
			text = holder.Label + " works on this order"
		}
		http.Error(w, text, http.StatusLocked)
	default: // the server of the locks is away, or refuses
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	}
}

// stop ends one process when ctx, which SIGTERM ends, has ended: no further request is accepted, those that run finish
// and release their locks, and then the session is closed.
func stop(ctx context.Context, server *http.Server, session *signalbox.Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), session.Close(ctx))
}
