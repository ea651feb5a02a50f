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

// Key answers the key of a lock with the default prefix.
func Key(name string) string {
	set, err := names.Make(names.DefaultPrefix, name)
	if err != nil {
		panic(err) // a test's own names are good
	}
	return set.Holder
}

// Hold is what a lock's key says.
type Hold struct {
	ID    string    // "" where nobody holds the lock
	Token uint64    // the first of the hold's, or the floor under those to come
	Ends  time.Time // when the key ends, by the clock of the server, which is this machine's
}

// state reads the key and its end in one step, so that the two belong together. The end, not
// what is left: that would count from an instant that only the server knows.
const state = `return {redis.call('GET', KEYS[1]) or '', redis.call('PEXPIRETIME', KEYS[1])}`

// Hold answers who holds the lock.
func (v *View) Hold(name string) (Hold, error) {
	reply, err := v.client.Do(context.Background(),
		v.client.B().Eval().Script(state).Numkeys(1).Key(Key(name)).Build()).ToArray()
	if err != nil {
		return Hold{}, fmt.Errorf("view of %q: %w", name, err)
	}
	value, err := reply[0].ToString()
	if err != nil {
		return Hold{}, fmt.Errorf("view of %q: %w", name, err)
	}
	ends, err := reply[1].AsInt64()
	if err != nil || len(value) < 20 {
		return Hold{}, err
	}
	h := Hold{Token: stamp.Parse(value[4:20]).Token(), Ends: time.UnixMilli(ends)}
	if value[3] != '-' {
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

// Free reports whether nobody holds the lock.
func (v *View) Free(name string) bool {
	h, err := v.Hold(name)
	return err == nil && h.ID == ""
}

// inspect names what must not be there: keys that never end, and holds.
const inspect = `
local immortal, held = {}, {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = string.sub(redis.call('GET', key) or '', 1, 4)
  if kind == 'sb1r' then held[#held + 1] = key end
  immortal[#immortal + 1] = redis.call('PTTL', key) == -1 and key or nil
end
return {immortal, held}`

// Leaks answers the keys of locks that never end, and those of locks that are held.
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
