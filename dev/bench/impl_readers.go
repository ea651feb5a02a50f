// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/rwlock"
)

// readers are the ways to read one lock that are compared. No Go peer has a read-write lock on Redis whose module
// can be had; what they do is the counter.
func readers() []implementation {
	return []implementation{counter(), sharedReader(), ownReader()}
}

// sharedReader is the reader of this project, whose holds the readers of a session share.
func sharedReader() implementation {
	return ours("signalbox rwlock", func(s *signalbox.Session, name string) ownLock { return readLocker{rwlock.New(s, name)} })
}

// ownReader is the reader of this project with a hold for each: a script to take it and one to give it back.
func ownReader() implementation {
	return ours("signalbox rwlock, a hold each", func(s *signalbox.Session, name string) ownLock {
		return readLocker{rwlock.New(s, name, signalbox.WithMaxHold(time.Hour))}
	})
}

// writer is the other side.
func writer() implementation {
	return ours("signalbox rwlock, writing", func(s *signalbox.Session, name string) ownLock { return rwlock.New(s, name) })
}

// readLocker is the reader's side of a lock.
type readLocker struct{ lock *rwlock.Lock }

// Lock implements ownLock.
func (r readLocker) Lock(ctx context.Context) (signalbox.Lease, error) { return r.lock.RLock(ctx) }

// counter is what a reader costs at the least where each asks the server: two scripts that count readers in a hash with a
// mode, through the client that signalbox uses. It is no lock: readers that crash are counted for ever.
func counter() implementation {
	return implementation{name: limitName, start: startCounter}
}

const (
	countScript = `if redis.call('HGET', KEYS[1], 'mode') == 'write' then return 0 end
redis.call('HSET', KEYS[1], 'mode', 'read')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'readers', 1)`
	uncountScript = `local left = redis.call('HINCRBY', KEYS[1], 'readers', -1)
if left == 0 then redis.call('DEL', KEYS[1]) end
return left`
)

type counterProcess struct {
	client         rueidis.Client
	count, uncount string // digests
	lifeMS         string
}

func startCounter(s setup) (process, error) {
	client, err := tunedClient(s)
	if err != nil {
		return nil, err
	}
	p := &counterProcess{client: client, lifeMS: strconv.FormatInt(s.lease.Milliseconds(), 10)}
	if p.count, err = load(client, countScript); err == nil {
		p.uncount, err = load(client, uncountScript)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

func (p *counterProcess) close() error {
	p.client.Close()
	return nil
}

type counterLocker struct {
	process *counterProcess
	key     string
	unlock  func() error
}

func (p *counterProcess) locker(ctx context.Context, name string) locker {
	l := &counterLocker{process: p, key: "counter:{" + name + "}"}
	l.unlock = func() error {
		left, err := p.client.Do(ctx, p.client.B().Evalsha().Sha1(p.uncount).Numkeys(1).Key(l.key).Build()).AsInt64()
		if err == nil && left < 0 {
			err = errors.New("fewer readers than none")
		}
		return err
	}
	return l
}

// Lock implements locker. It does not wait: there is no writer.
func (l *counterLocker) Lock(ctx context.Context) (func() error, error) {
	p := l.process
	n, err := p.client.Do(ctx, p.client.B().Evalsha().Sha1(p.count).Numkeys(1).Key(l.key).Arg(p.lifeMS).Build()).AsInt64()
	if err == nil && n < 1 {
		err = errors.New("a writer has the lock")
	}
	if err != nil {
		return nil, fmt.Errorf("counter: %w", err)
	}
	return l.unlock, nil
}
