// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredisclient "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redlock"
)

// fencedName is what this project's lock over a quorum is called with tokens that are ordered.
const fencedName = "signalbox fenced"

// quorumImplementations are the locks over several servers, under the names of those over one.
func quorumImplementations() []implementation {
	return []implementation{
		{name: limitName, start: startFanOut},
		quorumOf(ownName),
		quorumOf(fencedName, redlock.Fenced()),
		{name: "redsync", start: startRedsyncQuorum, excludes: true, sends: []string{"set"}},
	}
}

// majority is how many of n servers decide.
func majority(n int) int { return n/2 + 1 }

// each returns a process for each server of a setup.
func each[P process](s setup, start func(setup) (process, error)) (all []P, err error) {
	for _, addr := range s.addrs {
		one := s
		one.addr = addr
		p, err := start(one)
		if err != nil {
			for _, started := range all {
				err = errors.Join(err, started.close())
			}
			return nil, err
		}
		all = append(all, p.(P)) //nolint:errcheck,forcetypeassert // what start makes
	}
	return all, nil
}

// fanOutProcess is the limit: the scripts of the limit on one server, sent to all at once, done when a majority has replied.
type fanOutProcess struct{ servers []*limitProcess }

func startFanOut(s setup) (process, error) {
	servers, err := each[*limitProcess](s, startLimit)
	return &fanOutProcess{servers}, err
}

func (f *fanOutProcess) close() error {
	var errs []error
	for _, p := range f.servers {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

func (f *fanOutProcess) locker(_ context.Context, name string) locker {
	l := &fanOutLocker{}
	for _, p := range f.servers {
		l.servers = append(l.servers, &limitLocker{process: p, key: "limit:{" + name + "}"})
	}
	return l
}

type fanOutLocker struct{ servers []*limitLocker }

// Lock implements locker.
func (l *fanOutLocker) Lock(ctx context.Context) (unlock func() error, err error) {
	err = l.sendToAll(func(s *limitLocker) error {
		_, err := s.Lock(ctx)
		return err
	})
	return func() error { return l.sendToAll(func(s *limitLocker) error { return s.release(ctx) }) }, err
}

func (l *fanOutLocker) sendToAll(do func(*limitLocker) error) error {
	replied := make(chan error, len(l.servers))
	for _, s := range l.servers {
		go func() {
			// The release of one that was late may come after the next take: this is no lock.
			err := do(s)
			if errors.Is(err, rueidis.Nil) || errors.Is(err, errGone) {
				err = nil
			}
			replied <- err
		}()
	}
	for range majority(len(l.servers)) {
		if err := <-replied; err != nil {
			return err
		}
	}
	return nil
}

// quorumProcess is a session for each server.
type quorumProcess struct {
	servers  []*signalboxProcess
	sessions []*signalbox.Session
	options  []signalbox.LockOption
}

func quorumOf(name string, options ...signalbox.LockOption) implementation {
	start := func(s setup) (process, error) {
		one := ours(name, nil)
		servers, err := each[*signalboxProcess](s, one.start)
		p := &quorumProcess{servers: servers, options: options}
		for _, s := range servers {
			p.sessions = append(p.sessions, s.session)
		}
		return p, err
	}
	return implementation{name: name, start: start, excludes: true}
}

func (p *quorumProcess) close() error {
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (p *quorumProcess) locker(_ context.Context, name string) locker {
	l := &quorumLocker{lock: redlock.New(p.sessions, name, p.options...)}
	l.unlock = func() error { return l.lease.Unlock() }
	return l
}

type quorumLocker struct {
	lock   *redlock.Lock
	lease  signalbox.Lease
	unlock func() error
}

// Lock implements locker.
func (l *quorumLocker) Lock(ctx context.Context) (unlock func() error, err error) {
	l.lease, err = l.lock.Lock(ctx)
	return l.unlock, err
}

// redsyncQuorum is redsync on all servers.
type redsyncQuorum struct {
	redsyncProcess

	clients []*goredisclient.Client
}

func startRedsyncQuorum(s setup) (process, error) {
	q := &redsyncQuorum{redsyncProcess: redsyncProcess{set: s}}
	var pools []redis.Pool
	for _, addr := range s.addrs {
		one := s
		one.addr = addr
		client := pooledClient(one)
		q.clients = append(q.clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	q.sync = redsync.New(pools...)
	return q, nil
}

func (q *redsyncQuorum) close() error {
	var errs []error
	for _, c := range q.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
