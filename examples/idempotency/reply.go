// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
)

// reply is what is stored for a request. It is also the http.ResponseWriter of the handler, whose request may be over before it is.
type reply struct {
	Request string // the digest of the request: one with another body is another request
	Status  int
	Type    string // the headers that are replayed: never Set-Cookie
	Body    []byte

	header http.Header
}

func (r *reply) Header() http.Header { return r.header }

func (r *reply) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status, r.Type = status, r.header.Get("Content-Type")
	}
}

func (r *reply) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.Body = append(r.Body, b...)
	return len(b), nil
}

// Error says why a reply is not stored: the request is to be tried again.
func (r *reply) Error() string { return http.StatusText(r.Status) }

// digest returns one text for several, none of which can end in the next one.
func digest(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return hex.EncodeToString(sum[:])
}
