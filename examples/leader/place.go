// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
)

const (
	// serverVariable names a real server.
	serverVariable = "SIGNALBOX_REDIS"
	// prefix keeps the program's keys apart from others.
	prefix = "leader:"
	// lease is short, so that nobody waits long for the end of a crashed leader.
	lease = 2 * time.Second
)

// place is where the election is: the embedded server, or a real one.
type place struct {
	greeting string
	option   rueidis.ClientOption
	embedded *miniredis.Miniredis // nil with a real server
}

func openPlace() (*place, error) {
	if url := os.Getenv(serverVariable); url != "" {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serverVariable, err)
		}
		return &place{greeting: "Using the server that " + serverVariable + " names.", option: option}, nil
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	embedded.ClockTTL(true) // keys end by the clock, as on a real server
	return &place{
		greeting: "Using an embedded server, in memory. Name a real one with " + serverVariable + "=redis://host:6379.",
		// The embedded server knows no client-side caching, and in RESP3 no command beside a subscription.
		option:   rueidis.ClientOption{InitAddress: []string{embedded.Addr()}, ForceSingleClient: true, AlwaysRESP2: true},
		embedded: embedded,
	}, nil
}

// session returns a session of its own, as another process would have one.
func (p *place) session() (*signalbox.Session, rueidis.Client, error) {
	o := p.option
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, nil, err
	}
	return signalbox.NewSession(client, signalbox.WithPrefix(prefix)), client, nil
}

func (p *place) close() {
	if p.embedded != nil {
		p.embedded.Close()
	}
}

// member is one process of the service.
type member struct {
	session   *signalbox.Session
	client    rueidis.Client
	terminate context.CancelFunc
	returned  chan error // what Run returned
}

// start starts members in this order, so that they lead in this order.
func (p *place) start(ctx context.Context, names ...string) (map[string]*member, error) {
	all := make(map[string]*member)
	for i, member := range names {
		m, err := p.member(ctx, member)
		if err != nil {
			return nil, err
		}
		all[member] = m
		if err := m.awaitQueue(ctx, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (p *place) member(ctx context.Context, value string) (*member, error) {
	session, client, err := p.session()
	if err != nil {
		return nil, err
	}
	ctx, terminate := context.WithCancel(ctx)
	m := &member{session, client, terminate, make(chan error, 1)}
	e := election.New(session, name, election.Value(value), signalbox.RenewedLease(lease))
	go func() { m.returned <- e.Run(ctx, lead) }()
	return m, nil
}

// awaitQueue waits until a process leads and n others are in the queue: an election is the fair lock of its name.
func (m *member) awaitQueue(ctx context.Context, n int) error {
	lock := fair.New(m.session, name)
	for {
		held, err := lock.IsLocked(ctx)
		if err != nil {
			return err
		}
		waiting := 0
		for _, err := range lock.Waiters(ctx) {
			if err != nil {
				return err
			}
			waiting++
		}
		if held && waiting == n {
			return nil
		}
	}
}
