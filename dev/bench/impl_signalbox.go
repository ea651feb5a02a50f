// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/reentrant"
)

// signalboxLock is the reentrant lock of this project.
func signalboxLock() implementation {
	return ours(ownName, func(s *signalbox.Session, name string) ownLock { return reentrant.New(s, name) })
}

// signalboxKept is the same lock, which its session keeps while no goroutine uses it.
func signalboxKept() implementation {
	return ours(keptName, func(s *signalbox.Session, name string) ownLock { return reentrant.New(s, name) }, signalbox.WithKeepWarm(time.Minute))
}

// signalboxFair is the fair lock of this project.
func signalboxFair() implementation {
	return ours(fairName, func(s *signalbox.Session, name string) ownLock { return fair.New(s, name) })
}

// ownLock is what the locks of this project have in common.
type ownLock interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
}

type signalboxProcess struct {
	client  rueidis.Client
	session *signalbox.Session
	lock    func(s *signalbox.Session, name string) ownLock
}

func ours(name string, lock func(*signalbox.Session, string) ownLock, options ...signalbox.LockOption) implementation {
	start := func(s setup) (process, error) {
		client, err := tunedClient(s)
		if err != nil {
			return nil, err
		}
		defaults := signalbox.WithDefaults(append(slices.Clip(options), signalbox.WithRenewedLease(s.lease))...)
		return &signalboxProcess{client: client, session: signalbox.NewSession(client, defaults), lock: lock}, nil
	}
	return implementation{name: name, start: start, excludes: true}
}

func (p *signalboxProcess) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := p.session.Close(ctx)
	p.client.Close()
	return err
}

// signalboxLocker makes a lock for each call, as a request does.
type signalboxLocker struct {
	lock   func() ownLock
	lease  signalbox.Lease
	unlock func() error
}

func (p *signalboxProcess) locker(_ context.Context, name string) locker {
	l := &signalboxLocker{lock: func() ownLock { return p.lock(p.session, name) }}
	l.unlock = func() error {
		err := l.lease.Unlock()
		if errors.Is(err, signalbox.ErrUnconfirmed) {
			return nil // the release continues in the background, and the next acquire pays for it
		}
		return err
	}
	return l
}

// Lock implements locker.
func (l *signalboxLocker) Lock(ctx context.Context) (unlock func() error, err error) {
	l.lease, err = l.lock().Lock(ctx)
	return l.unlock, err
}

type signalboxKeeper struct {
	process *signalboxProcess
	leases  []signalbox.Lease
}

func (p *signalboxProcess) keeper(n int) keeper {
	return &signalboxKeeper{process: p, leases: make([]signalbox.Lease, n)}
}

func (k *signalboxKeeper) keep(ctx context.Context, i int, name string) (err error) {
	k.leases[i], err = k.process.lock(k.process.session, name).Lock(ctx)
	return err
}

func (k *signalboxKeeper) lost() int {
	n := 0
	for _, lease := range k.leases {
		if errors.Is(lease.Err(), signalbox.ErrLost) {
			n++
		}
	}
	return n
}

// drop releases a lock. A lock that is lost while they are released, after they were watched, is no failure of the run.
func (k *signalboxKeeper) drop(i int) error {
	if err := k.leases[i].Unlock(); !errors.Is(err, signalbox.ErrLost) {
		return err
	}
	return nil
}
