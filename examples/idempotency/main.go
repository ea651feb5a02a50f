// SPDX-License-Identifier: Apache-2.0

// Command idempotency is a service whose clients may send a request again, with the same Idempotency-Key, when they do not know
// whether it was done: it is done once, and each copy gets the reply of the first one.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/once"
)

func main() { demo.Main(show) }

// idempotent runs next once for each key of a user. Mount it inside the authentication: keys of two users are never the same one.
func idempotent(session *signalbox.Session, user func(*http.Request) string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
		if key == "" || len(key) > 255 || err != nil {
			http.Error(w, "an Idempotency-Key of up to 255 bytes, and a body of up to 64 KiB", http.StatusBadRequest)
			return
		}
		request, copied := digest(r.URL.String(), string(body)), r.Clone(r.Context())
		value, _, err := once.New(session, "request/"+digest(user(r), r.Method, r.Pattern, key), once.Keep(24*time.Hour)).TryDo(
			r.Context(), func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
				done, inner := &reply{Request: request, header: http.Header{}}, copied.WithContext(ctx)
				inner.Body = io.NopCloser(bytes.NewReader(body))
				next(done, inner)
				if done.WriteHeader(http.StatusOK); done.Status >= http.StatusInternalServerError {
					return nil, done
				}
				if len(done.Body) > once.MaxValue/2 {
					done.Body = nil // a copy gets the status alone
				}
				return json.Marshal(done)
			})
		stored := new(reply)
		switch {
		case errors.Is(err, signalbox.ErrHeld):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "this request is being done", http.StatusConflict)
			return
		case errors.As(err, &stored):
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		case json.Unmarshal(value, stored) != nil || stored.Request != request:
			http.Error(w, "this Idempotency-Key belongs to another request", http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", stored.Type)
		w.WriteHeader(stored.Status)
		_, _ = w.Write(stored.Body)
	}
}
