// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// limit is what a lock cannot go below: two scripts, SET NX PX and GET with DEL, through the
// client that signalbox uses, and nothing around them.
func limit() implementation {
	return implementation{name: limitName, start: startLimit}
}

const (
	lockScript   = `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`
	unlockScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

type limitProcess struct {
	client                   rueidis.Client
	lockDigest, unlockDigest string // the digests of lockScript and unlockScript
	lifeMS                   string
}

func startLimit(s setup) (process, error) {
	client, err := tunedClient(s)
	if err != nil {
		return nil, err
	}
	p := &limitProcess{client: client, lifeMS: strconv.FormatInt(s.lease.Milliseconds(), 10)}
	if p.lockDigest, err = load(client, lockScript); err == nil {
		p.unlockDigest, err = load(client, unlockScript)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

// load returns the digest of a script that the server has from then on.
func load(client rueidis.Client, script string) (string, error) {
	return client.Do(context.Background(), client.B().ScriptLoad().Script(script).Build()).ToString()
}

func (p *limitProcess) close() error {
	p.client.Close()
	return nil
}

type limitLocker struct {
	process *limitProcess
	key     string
	unlock  func() error
}

var errGone = errors.New("the key was gone")

// limitValue is as long as a random value that others write.
const limitValue = "0123456789abcdef012345"

func (p *limitProcess) locker(ctx context.Context, name string) locker {
	l := &limitLocker{process: p, key: "limit:{" + name + "}"}
	l.unlock = func() error { return l.release(ctx) }
	return l
}

// Lock implements locker. It does not wait: no other goroutine may use the name.
func (l *limitLocker) Lock(ctx context.Context) (func() error, error) {
	p := l.process
	lock := p.client.B().Evalsha().Sha1(p.lockDigest).Numkeys(1).Key(l.key).Arg(limitValue, p.lifeMS).Build()
	if err := p.client.Do(ctx, lock).Error(); err != nil {
		return nil, fmt.Errorf("limit: lock: %w", err)
	}
	return l.unlock, nil
}

func (l *limitLocker) release(ctx context.Context) error {
	p := l.process
	unlock := p.client.B().Evalsha().Sha1(p.unlockDigest).Numkeys(1).Key(l.key).Arg(limitValue).Build()
	n, err := p.client.Do(ctx, unlock).AsInt64()
	if err == nil && n != 1 {
		err = errGone
	}
	if err != nil {
		return fmt.Errorf("limit: unlock: %w", err)
	}
	return nil
}
