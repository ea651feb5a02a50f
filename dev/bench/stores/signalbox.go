// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

func signalboxClient() client { return client{"signalbox", joinSignalbox} }

type signalboxProcess struct {
	client  rueidis.Client
	session *signalbox.Session
}

func joinSignalbox(address string, lease time.Duration) (process, error) {
	o := rueidis.ClientOption{InitAddress: []string{address}}
	signalbox.Tune(&o)
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	return &signalboxProcess{c, signalbox.NewSession(c, signalbox.WithLogger(slog.New(slog.DiscardHandler)),
		signalbox.WithDefaults(signalbox.WithRenewedLease(lease)))}, nil
}

func (p *signalboxProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	lease, err := reentrant.New(p.session, name).Lock(ctx)
	return func() error {
		if err := lease.Unlock(); !errors.Is(err, signalbox.ErrUnconfirmed) { // the release continues in the background
			return err
		}
		return nil
	}, err
}

func (p *signalboxProcess) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.session.Close(ctx)
	p.client.Close()
	return err
}
