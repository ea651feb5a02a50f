// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// side is one implementation on one server.
type side struct {
	name     string
	join     string // what join takes
	requests func() (count, error)
	close    func()
}

// count is what a server got from its clients.
type count struct {
	requests int64
	pings    int64 // the requests by which our client sees whether a connection is alive; etcd's client sends none by default
}

// member is a process that takes part in elections.
type member interface {
	// campaign blocks until this process leads.
	campaign(ctx context.Context, name string) (resign func() error, err error)
	// leader asks who leads.
	leader(ctx context.Context, name string) error
	// observe calls seen for each change until ctx ends.
	observe(ctx context.Context, name string, seen func())
	close() error
}

// join returns a member of the side whose address is to, with a lease of that length.
func join(to string, lease time.Duration) (member, error) {
	kind, address, _ := strings.Cut(to, " ")
	if kind == "etcd" {
		return joinEtcd(address, lease)
	}
	return joinSignalbox(address, lease)
}

// startRedis returns our side, on a server of its own.
func startRedis(name string, args ...string) (*side, error) {
	server, err := redistest.StartServer(redistest.WithArgs(args...))
	if err != nil {
		return nil, err
	}
	return &side{name, "redis " + server.URL(), func() (sum count, err error) {
		for command, stat := range server.CommandStats() {
			command, _, _ = strings.Cut(command, "|")
			switch command {
			case "evalsha", "eval", "script", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe":
				sum.requests += stat.Calls
			case "ping":
				sum.pings += stat.Calls
			}
		}
		return sum, nil
	}, server.Close}, nil
}

// ours is a member of our side.
type ours struct {
	client  rueidis.Client
	session *signalbox.Session
	lease   signalbox.LockOption
}

func joinSignalbox(url string, lease time.Duration) (member, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("the server's address: %w", err)
	}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("a client of redis: %w", err)
	}
	return &ours{client, signalbox.NewSession(client, signalbox.WithLogger(slog.New(slog.DiscardHandler))), signalbox.WithRenewedLease(lease)}, nil
}

func (o *ours) election(name string) *election.Election {
	return election.New(o.session, name, o.lease, election.Value("a value"))
}

func (o *ours) campaign(ctx context.Context, name string) (resign func() error, err error) {
	term, err := o.election(name).Campaign(ctx)
	return term.Resign, err
}

func (o *ours) leader(ctx context.Context, name string) error {
	_, err := o.election(name).Leader(ctx)
	return err
}

func (o *ours) observe(ctx context.Context, name string, seen func()) {
	for _, err := range o.election(name).Observe(ctx) {
		if err == nil {
			seen()
		}
	}
}

func (o *ours) close() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = o.session.Close(ended) // leaves no lease behind, and says so
	o.client.Close()
	return nil
}

// theirs is a member of etcd's side. Its elections share the lease of its session.
type theirs struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func joinEtcd(url string, lease time.Duration) (member, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("a client of etcd: %w", err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(lease/time.Second)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a session of etcd: %w", err), client.Close())
	}
	return &theirs{client, session}, nil
}

func (t *theirs) campaign(ctx context.Context, name string) (resign func() error, err error) {
	e := concurrency.NewElection(t.session, name)
	return func() error { return e.Resign(context.WithoutCancel(ctx)) }, e.Campaign(ctx, "a value")
}

func (t *theirs) leader(ctx context.Context, name string) error {
	_, err := concurrency.NewElection(t.session, name).Leader(ctx)
	return err
}

func (t *theirs) observe(ctx context.Context, name string, seen func()) {
	for range concurrency.NewElection(t.session, name).Observe(ctx) {
		seen()
	}
}

func (t *theirs) close() error { return errors.Join(t.session.Close(), t.client.Close()) }
