// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/stamp"
)

// View looks at what locks left on a server, over a connection that no fault strikes.
type View struct{ client rueidis.Client }

// NewView answers a view of the server.
func NewView(tb testing.TB, server clients) *View {
	tb.Helper()
	return &View{client: server.Client(tb, func(o *rueidis.ClientOption) { o.DisableCache = true })}
}

// Keys answers what a lock has on the server, with the default prefix.
func Keys(name string) names.Set {
	set, err := names.Make(names.DefaultPrefix, name)
	if err != nil {
		panic(err) // a test's own names are good
	}
	return set
}

// Key answers the holder key of a lock.
func Key(name string) string { return Keys(name).Holder }

// Hold is what a lock's keys say.
type Hold struct {
	ID      string    // "" where nobody holds the lock
	Token   uint64    // the first of the hold's, or the floor under those to come
	Ends    time.Time // when the hold ends, by the clock of the server, which is this machine's
	Waiting int       // how many stand in line
}

// state reads the key and the end of the hold in one step, so that the two belong together. The
// end, not what is left: that would count from an instant that only the server knows. Where a line
// may stand behind the hold, the value says when it ends, and the key stays for longer.
const state = `
local value, ends = redis.call('GET', KEYS[1]) or '', redis.call('PEXPIRETIME', KEYS[1])
local held = value ~= '' and string.sub(value, 4, 4) ~= '-'
if string.sub(value, 1, 4) == 'sb1f' then
  local time, till = redis.call('TIME'), tonumber(string.sub(value, 62, 77))
  held = till > time[1] * 1000000 + time[2]
  ends = math.floor(till / 1000)
end
return {value, ends, held and 1 or 0, redis.call('ZCARD', KEYS[2])}`

// Hold answers who holds the lock.
func (v *View) Hold(name string) (Hold, error) {
	reply, err := v.client.Do(context.Background(),
		v.client.B().Eval().Script(state).Numkeys(2).Key(Key(name), Keys(name).Line()).Build()).ToArray()
	if err != nil {
		return Hold{}, fmt.Errorf("view of %q: %w", name, err)
	}
	value, err := reply[0].ToString()
	if err != nil {
		return Hold{}, fmt.Errorf("view of %q: %w", name, err)
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = reply[1+i].AsInt64(); err != nil {
			return Hold{}, fmt.Errorf("view of %q: %w", name, err)
		}
	}
	h := Hold{Waiting: int(numbers[2])}
	if len(value) >= 20 {
		h.Token, h.Ends = stamp.Parse(value[4:20]).Token(), time.UnixMilli(numbers[0])
	}
	if numbers[1] == 1 {
		h.ID = value[20:61]
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

// Free reports whether nobody holds the lock, or stands in line for it.
func (v *View) Free(name string) bool {
	h, err := v.Hold(name)
	return err == nil && h.ID == "" && h.Waiting == 0
}

// Waiting answers how many stand in line for the lock; -1 where the server does not tell.
func (v *View) Waiting(name string) int {
	h, err := v.Hold(name)
	if err != nil {
		return -1
	}
	return h.Waiting
}

// Now answers the server's time.
func (v *View) Now(tb testing.TB) time.Time {
	tb.Helper()
	parts, err := v.client.Do(context.Background(), v.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		tb.Fatal(err)
	}
	return time.Unix(parts[0], parts[1]*1000)
}

// inspect names what must not be there: keys that never end, holds, and lines.
const inspect = `
local immortal, held = {}, {}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local type = redis.call('TYPE', key)['ok']
  local value = type == 'string' and redis.call('GET', key) or ''
  local kind = string.sub(value, 1, 4)
  local has = kind == 'sb1r' or kind == 'sb1f' and tonumber(string.sub(value, 62, 77)) > now
  if has or type == 'zset' then held[#held + 1] = key end
  immortal[#immortal + 1] = redis.call('PTTL', key) == -1 and key or nil
end
return {immortal, held}`

// Leaks answers the keys of locks that never end, and those of locks that are held or waited for.
func (v *View) Leaks() (immortal, held []string, err error) {
	reply, err := v.client.Do(context.Background(),
		v.client.B().Eval().Script(inspect).Numkeys(0).Arg(names.DefaultPrefix+"*").Build()).ToArray()
	if err != nil {
		return nil, nil, fmt.Errorf("leaks: %w", err)
	}
	if immortal, err = reply[0].AsStrSlice(); err != nil {
		return nil, nil, fmt.Errorf("leaks: %w", err)
	}
	held, err = reply[1].AsStrSlice()
	return immortal, held, err
}

// NoImmortals fails the test if a lock's key has no end.
func (v *View) NoImmortals(tb testing.TB) {
	tb.Helper()
	immortal, _, err := v.Leaks()
	if err != nil || len(immortal) > 0 {
		tb.Fatalf("keys without an end: %s (%v)", strings.Join(immortal, ", "), err)
	}
}
