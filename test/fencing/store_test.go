// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// store is what the lock protects: a counter, and a log of everything that was written to it.
type store struct{ client rueidis.Client }

const (
	counterKey = "counter"
	logKey     = "log"
)

// access reads the counter, or writes it if ARGV[2] is there, and returns it; -1 is a refusal.
const access = `
local counter, log = KEYS[1], KEYS[2]
local token, value = tonumber(ARGV[1]), ARGV[2]
local seen = tonumber(redis.call('HGET', counter, 'token') or 0)
if token < seen then return -1 end
if token > seen then redis.call('HSET', counter, 'token', ARGV[1]) end
if not value then return tonumber(redis.call('HGET', counter, 'value') or 0) end
redis.call('HSET', counter, 'value', value)
redis.call('RPUSH', log, ARGV[1] .. ' ' .. value)
return tonumber(value)`

var errStale = errors.New("the store has seen a greater token")

func (s *store) access(ctx context.Context, token uint64, value ...string) (int64, error) {
	args := append([]string{strconv.FormatUint(token, 10)}, value...)
	n, err := s.client.Do(ctx,
		s.client.B().Eval().Script(access).Numkeys(2).Key(counterKey, logKey).Arg(args...).Build()).AsInt64()
	if err == nil && n < 0 {
		err = errStale
	}
	return n, err
}

func (s *store) read(ctx context.Context, token uint64) (int64, error) { return s.access(ctx, token) }

func (s *store) write(ctx context.Context, token uint64, value int64) error {
	_, err := s.access(ctx, token, strconv.FormatInt(value, 10))
	return err
}

// size returns how many writes there were.
func (s *store) size() int64 {
	n, err := s.client.Do(context.Background(), s.client.B().Llen().Key(logKey).Build()).AsInt64()
	if err != nil {
		return 0
	}
	return n
}

// lost says what is wrong with the log, and returns how many updates were lost: those whose
// value was written before. Tokens must rise.
func (s *store) lost() (lost int, err error) {
	entries, err := s.client.Do(context.Background(), s.client.B().Lrange().Key(logKey).Start(0).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return 0, err
	}
	var last, lastToken int64
	for i, entry := range entries {
		left, right, _ := strings.Cut(entry, " ")
		token, _ := strconv.ParseInt(left, 10, 64)
		value, _ := strconv.ParseInt(right, 10, 64)
		if value != last+1 {
			lost++
		}
		if token <= lastToken {
			return lost, fmt.Errorf("write %d: token %d after %d", i, token, lastToken)
		}
		last, lastToken = value, token
	}
	return lost, nil
}
