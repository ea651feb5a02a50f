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
	"github.com/signalbox-go/signalbox/reentrant"
)

// host is one process of the service, with a session and a port of its own.
type host struct {
	session *signalbox.Session
	server  *httptest.Server
	begun   chan struct{} // receives when the host begins to work on an order
	finish  chan struct{} // the work may be done
}

func newHost(ctx context.Context, url, name string) (*host, error) {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(name))
	if err != nil {
		return nil, err
	}
	h := &host{session: session, begun: make(chan struct{}), finish: make(chan struct{}, 1)}
	h.server = httptest.NewServer(routes(session, h.ship))
	return h, nil
}

// ship is the work, which is done when the show says so.
func (h *host) ship(ctx context.Context, _ string, _ uint64) error {
	h.begun <- struct{}{}
	select {
	case <-h.finish:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *host) close(ctx context.Context) {
	_ = stop(ctx, h.server.Config, h.session)
	h.server.Close()
}

// post sends a request to ship order 42, and returns the reply as one line.
func (h *host) post(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.server.URL+"/orders/42/shipment", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := h.server.Client().Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	reply := response.Status
	if after := response.Header.Get("Retry-After"); after != "" {
		reply += ", Retry-After " + after + ": " + strings.TrimSpace(string(body))
	}
	return reply, err
}

// postAndWork is post, and returns when the handler works. The reply comes later.
func (h *host) postAndWork(ctx context.Context) <-chan string {
	reply := make(chan string, 1)
	go func() {
		text, err := h.post(ctx)
		if err != nil {
			text = err.Error()
		}
		reply <- text
	}()
	select {
	case <-h.begun:
	case <-ctx.Done():
	}
	return reply
}

// show sends requests to both hosts.
func show(ctx context.Context, url string) error {
	a, err := newHost(ctx, url, "host a")
	if err != nil {
		return err
	}
	defer a.close(ctx)
	b, err := newHost(ctx, url, "host b")
	if err != nil {
		return err
	}
	defer b.close(ctx)

	first := a.postAndWork(ctx)
	reply, err := b.post(ctx)
	if err != nil {
		return err
	}
	fmt.Println("second request:", reply)
	a.finish <- struct{}{}
	fmt.Println("first request:", <-first)

	third := b.postAndWork(ctx)
	b.finish <- struct{}{}
	fmt.Println("the second one again:", <-third)

	hanging := a.postAndWork(ctx)
	if err := reentrant.New(b.session, "order/42").ForceUnlock(ctx); err != nil {
		return err
	}
	fmt.Println("a request whose lock was broken:", <-hanging)
	return showClientThatLeaves(ctx, a)
}

// showClientThatLeaves cancels a request: the work ends, and the lock is free.
func showClientThatLeaves(ctx context.Context, a *host) error {
	client, leave := context.WithCancel(ctx)
	reply := a.postAndWork(client)
	leave()
	<-reply
	lease, err := reentrant.New(a.session, "order/42").Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("a client has left, and the lock is free")
	return lease.Unlock()
}
