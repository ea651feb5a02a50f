// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/signalbox-go/signalbox"
)

// payments is the handler, which pays what the body says.
type payments struct {
	begun, finish chan struct{} // one payment waits between the two
	count         int           // of the payments that were made; one runs at a time
}

func (p *payments) pay(w http.ResponseWriter, r *http.Request) {
	amount, _ := io.ReadAll(r.Body)
	switch string(amount) {
	case "slow":
		p.begun <- struct{}{}
		<-p.finish
	case "broken":
		p.count++
		http.Error(w, fmt.Sprintf("try %d failed", p.count), http.StatusBadGateway)
		return
	}
	p.count++
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "payment %d of %s", p.count, amount)
}

// show sends requests, some of them again.
func show(ctx context.Context, url string) error {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	p := &payments{begun: make(chan struct{}), finish: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", idempotent(session, func(r *http.Request) string { return r.Header.Get("User") }, p.pay))
	send := func(what, user, key, amount string) {
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(amount))
		request.Header.Set("User", user)
		request.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, request)
		fmt.Printf("%s: %d %s\n", what, w.Code, strings.TrimSpace(w.Body.String()))
	}
	send("a request", "ada", "1", "10")
	send("sent again", "ada", "1", "10")
	send("with another body", "ada", "1", "20")
	send("the same key of another user", "bob", "1", "10")
	send("one that fails", "ada", "2", "broken")
	send("sent again", "ada", "2", "broken")
	send("without a key", "ada", "", "10")
	slow := make(chan struct{})
	go func() {
		defer close(slow)
		send("the slow one", "ada", "3", "slow")
	}()
	<-p.begun
	send("sent again while it runs", "ada", "3", "slow")
	close(p.finish)
	<-slow
	send("and after that", "ada", "3", "slow")
	return nil
}
