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

func (m *ours) election(name string) *election.Election {
	return election.New(m.session, name, m.lease, election.Value("a value"))
}

func (m *ours) campaign(ctx context.Context, name string) (resign func() error, err error) {
	term, err := m.election(name).Campaign(ctx)
	return term.Resign, err
}

func (m *ours) leader(ctx context.Context, name string) error {
	_, err := m.election(name).Leader(ctx)
	return err
}

func (m *ours) observe(ctx context.Context, name string, seen func()) {
	for _, err := range m.election(name).Observe(ctx) {
		if err == nil {
			seen()
		}
	}
}

func (m *ours) close() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.session.Close(ended) // leaves no lease behind, and says so
	m.client.Close()
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

func (m *theirs) campaign(ctx context.Context, name string) (resign func() error, err error) {
	e := concurrency.NewElection(m.session, name)
	return func() error { return e.Resign(context.WithoutCancel(ctx)) }, e.Campaign(ctx, "a value")
}

func (m *theirs) leader(ctx context.Context, name string) error {
	_, err := concurrency.NewElection(m.session, name).Leader(ctx)
	return err
}

func (m *theirs) observe(ctx context.Context, name string, seen func()) {
	for range concurrency.NewElection(m.session, name).Observe(ctx) {
		seen()
	}
}

func (m *theirs) close() error { return errors.Join(m.session.Close(), m.client.Close()) }
