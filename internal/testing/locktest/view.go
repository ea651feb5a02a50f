// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// IsHeld reports whether the value of the holder key of a reentrant or fair lock names a holder.
func IsHeld(value string) bool {
	const mode = 61 // '-' in a key that is marked and has no hold
	return len(value) > mode && strings.HasPrefix(value, "sb1l") && value[mode] != '-'
}

// View reads the state of locks on a server, over a connection without faults.
type View struct{ client rueidis.Client }

// NewView returns a view of the server.
func NewView(tb testing.TB, server redistest.Dialer) *View {
	tb.Helper()
	return &View{client: server.Client(tb, func(o *rueidis.ClientOption) { o.DisableCache = true })}
}

// Keys returns the keys of a lock on the server, with the default prefix.
func Keys(name string) proto.Set {
	set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
	if err != nil {
		panic(err) // a test's own names are good
	}
	return set
}

// Key returns the holder key of a lock.
func Key(name string) string { return Keys(name).Holder }

// Hold is the state of a lock, as its keys have it.
type Hold struct {
	ID      string    // "" if the lock is free; if there are several holders, the hold that expires last
	Token   uint64    // the first of the hold's, or the floor under those to come
	Ends    time.Time // the end of the hold, by the clock of the server, which is this machine's
	Waiting int       // the number of tickets in the queue
	Holds   int       // the number of holds
}

// state reads the key and the end of the hold in one step, so that the two belong together. The
// end, not what is left: that would count from an instant that only the server knows. A key that is
// marked is kept 15 seconds longer than its hold. If the name has no lock, state reads the permits of a
// semaphore: no test has both.
const state = redistest.KeyEnds + `
local waiting = 0
for _, queue in ipairs({KEYS[2], KEYS[3], KEYS[5], KEYS[6]}) do
  waiting = waiting + redis.call('ZCARD', queue)
end
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local key, mark = KEYS[1], 'sb1w'
if redis.call('EXISTS', key) == 0 and redis.call('EXISTS', KEYS[4]) == 1 then
  key, mark = KEYS[4], 'sb1s'
end
if redis.call('TYPE', key)['ok'] == 'zset' then
  local holds = redis.call('ZRANGE', key, '(' .. now, '+inf', 'BYSCORE', 'WITHSCORES')
  local id, ends = holds[#holds - 1] or '', holds[#holds] or 0
  local floor = string.format('%016.0f', -(redis.call('ZSCORE', key, mark) or 0))
  return {floor, math.floor(ends / 1000), string.sub(id, 1, 41), waiting, #holds / 2}
end
local value, ends = redis.call('GET', KEYS[1]) or '', key_ends(KEYS[1])
local kind, held = string.sub(value, 4, 4), false
if kind == 'l' then
  if string.sub(value, 63, 63) == 'q' and ends > 0 then
    ends = ends - 15000
  end
  held = string.sub(value, 62, 62) ~= '-' and (ends < 0 or ends * 1000 > tonumber(now))
else
  held = value ~= '' and kind ~= '-'
end
return {string.sub(value, 5, 20), ends, held and string.sub(value, 21, 61) or '', waiting, held and 1 or 0}`

// Hold returns the holder of the lock.
func (v *View) Hold(name string) (Hold, error) {
	keys := Keys(name)
	reply, err := v.client.Do(context.Background(),
		v.client.B().Eval().Script(state).Numkeys(6).
			Key(keys.Holder, keys.QueueKey(), keys.Readers(), keys.Permits(), keys.PermitsQueue(), keys.Writers()).Build()).ToArray()
	if err != nil {
		return Hold{}, fmt.Errorf("view of %q: %w", name, err)
	}
	var texts [2]string // the stamp and the id
	for i := range texts {
		if texts[i], err = reply[2*i].ToString(); err != nil {
			return Hold{}, fmt.Errorf("view of %q: %w", name, err)
		}
	}
	var numbers [3]int64
	for i, at := range []int{1, 3, 4} {
		if numbers[i], err = reply[at].AsInt64(); err != nil {
			return Hold{}, fmt.Errorf("view of %q: %w", name, err)
		}
	}
	h := Hold{ID: texts[1], Waiting: int(numbers[1]), Holds: int(numbers[2])}
	if texts[0] != "" {
		h.Token, h.Ends = wire.ParseStamp(texts[0]).Token(), time.UnixMilli(numbers[0])
	}
	return h, nil
}

// MustHold is Hold that fails the test if there is an error.
func (v *View) MustHold(tb testing.TB, name string) Hold {
	tb.Helper()
	h, err := v.Hold(name)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// Free reports whether the lock has neither holder nor waiter.
func (v *View) Free(name string) bool {
	h, err := v.Hold(name)
	return err == nil && h.ID == "" && h.Waiting == 0
}

// inspect names what must not be there: keys that never end, holds, and queues.
const inspect = `
local immortal, held = {}, {}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local type = redis.call('TYPE', key)['ok']
  local value = type == 'string' and redis.call('GET', key) or ''
  local kind, ms = string.sub(value, 1, 4), redis.call('PTTL', key)
  local has = kind == 'sb1q' or kind == 'sb1l' and string.sub(value, 62, 62) ~= '-' and
    (string.sub(value, 63, 63) == '-' or ms < 0 or ms > 15000)
  if type == 'zset' then
    -- A queue, or holds that end one by one.
    has = string.sub(key, -5) ~= ':lock' and string.sub(key, -8) ~= ':permits' or redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf') > 0
  end
  if has then held[#held + 1] = key end
  immortal[#immortal + 1] = ms == -1 and key or nil
end
return {immortal, held}`

// Leaks returns the keys of locks that never end, and those of locks that are held or waited for.
func (v *View) Leaks() (immortal, held []string, err error) {
	reply, err := v.client.Do(context.Background(),
		v.client.B().Eval().Script(inspect).Numkeys(0).Arg(proto.DefaultPrefix+"*").Build()).ToArray()
	if err != nil {
		return nil, nil, fmt.Errorf("leaks: %w", err)
	}
	if immortal, err = reply[0].AsStrSlice(); err != nil {
		return nil, nil, fmt.Errorf("leaks: %w", err)
	}
	held, err = reply[1].AsStrSlice()
	return immortal, held, err
}

// User makes clients of a server as one of its users. The server may be several that a client sees as one.
type User struct {
	Server         redistest.Dialer
	Name, Password string
}

// Client returns a client of that user, closed when the test ends.
func (u User) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return u.Server.Client(tb, func(o *rueidis.ClientOption) {
		if mod != nil {
			mod(o)
		}
		o.Username, o.Password = u.Name, u.Password
		o.PipelineMultiplex = -1                       // one connection, made at once: later ones may be refused
		o.ClientSetInfo = rueidis.DisableClientSetInfo // see signalbox.Tune
	})
}

// Secrets records errors and logs, and the secrets that they must not have.
type Secrets struct {
	mu struct {
		sync.Mutex
		recorded bytes.Buffer
		secrets  []string
		broken   []string // errors of more than one line
	}
}

// NewSecrets fails the test at its end if a text that was recorded has a secret in it, or if an
// error has more than one line.
func NewSecrets(tb testing.TB) *Secrets {
	tb.Helper()
	s := new(Secrets)
	tb.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, text := range s.mu.broken {
			tb.Errorf("an error of more than one line: %q", text)
		}
		said := s.mu.recorded.String()
		for _, secret := range s.mu.secrets {
			if secret != "" && strings.Contains(said, secret) {
				tb.Errorf("%q is in:\n%s", secret, said)
			}
		}
	})
	return s
}

// Add names secrets.
func (s *Secrets) Add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.secrets = append(s.mu.secrets, secrets...)
}

// AddSession makes secrets of the ids of a session and of all its holds, which begin with it.
func (s *Secrets) AddSession(of *signalbox.Session) { s.Add((*session.Handle)(of).Session().ID()) }

// RecordError records an error that a caller got, and returns it.
func (s *Secrets) RecordError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	_, _ = s.Write([]byte(text + "\n"))
	if strings.Contains(text, "\n") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.broken = append(s.mu.broken, text)
	}
	return err
}

// Write implements io.Writer, for a log.
func (s *Secrets) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.recorded.Write(line)
}

// Recorded returns everything so far.
func (s *Secrets) Recorded() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.recorded.String()
}

// Logger returns a logger whose output is recorded.
func (s *Secrets) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }
