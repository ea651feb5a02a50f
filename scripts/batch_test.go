// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// batch is a place of many keys, one for each thing that may be found there.
type batch struct {
	*place

	keys []string
}

func newBatch(t *testing.T) *batch {
	t.Helper()
	b := &batch{place: newPlace(t)}
	for _, make := range [][]any{
		nil,
		{"SET", heldBy(theirs, noon-10, ""), "PX", 60_000},
		{"RPUSH", "x"},
		{"SET", "hello"},
		{"SET", released(noon), "PX", 60_000},
		{"SET", heldBy(ours, noon-10, they), "PX", 60_000},
	} {
		key := b.key + string(rune('a'+len(b.keys)))
		b.keys = append(b.keys, key)
		if make != nil {
			b.server.MustDo(t, append([]any{make[0], key}, make[1:]...)...)
		}
	}
	return b
}

// run answers the replies by key: each is asked the same.
func (b *batch) run(script *scripts.Script, args ...any) []any {
	b.Helper()
	var all []any
	for range b.keys {
		all = append(all, args...)
	}
	reply, err := b.tryKeys(script, b.keys, all...)
	require.NoError(b, err)
	list, _ := reply.([]any)
	require.Len(b, list, len(b.keys))
	return list
}

func (b *batch) value(n int) any {
	b.Helper()
	return b.server.MustDo(b, "GET", b.keys[n])
}

func TestLocksAreTakenEachByItself(t *testing.T) {
	t.Parallel()
	b := newBatch(t)
	replies := b.run(scripts.ReentrantAcquire, claimOf(ours), lease, digits(noon), we)
	require.Equal(t, digits(noon), replies[0])
	require.Equal(t, int64(0), replies[1].([]any)[0])
	require.Contains(t, replies[2].(redistest.ReplyError).Error(), "WRONGTYPE")
	require.Equal(t, []any{int64(-2), "?"}, replies[3])
	require.Equal(t, []any{int64(1), digits(noon + 1), block, digits(noon)}, replies[4])
	require.Equal(t, []any{int64(1), digits(noon - 10 + block), int64(0), digits(noon)}, replies[5])

	require.Equal(t, heldBy(ours, noon, ""), b.value(0))
	require.Equal(t, heldBy(theirs, noon-10, we), b.value(1))
	require.Equal(t, "hello", b.value(3))
	require.Equal(t, heldBy(ours, noon+1, ""), b.value(4))
	require.Equal(t, heldBy(ours, noon-10, they), b.value(5))
}

func TestEachAcquireOfManyHasItsOwnTerms(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys := []string{p.key + "a", p.key + "b", p.key + "c"}
	reply, err := p.tryKeys(scripts.ReentrantAcquire, keys,
		claimOf(ours), 60_000, digits(noon), "",
		claimOf(theirs), 3_600_000, digits(noon-1), "",
		claimOf(theirs), 7_200_000, digits(noon), "")
	require.NoError(t, err)
	require.Equal(t, []any{digits(noon), []any{int64(-1), digits(noon)}, digits(noon)}, reply)
	p.key = keys[0]
	require.Equal(t, heldBy(ours, noon, ""), p.value())
	p.requireLife(time.Minute)
	p.key = keys[1]
	require.Empty(t, p.value())
	p.key = keys[2]
	require.Equal(t, heldBy(theirs, noon, ""), p.value())
	p.requireLife(2 * time.Hour)
}

func TestLocksAreGivenBackEachByItself(t *testing.T) {
	t.Parallel()
	b := newBatch(t)
	listener := b.listen()
	replies := b.run(scripts.ReentrantRelease, heldBy(ours, noon-10, ""), digits(noon+9), "PUBLISH", b.channel, keepMS)
	require.Contains(t, replies[2].(redistest.ReplyError).Error(), "WRONGTYPE")
	require.Equal(t, []any{int64(0), int64(0), int64(0), int64(0), int64(2)}, append(replies[:2:2], replies[3:]...))

	require.Nil(t, b.value(0))
	require.Equal(t, heldBy(theirs, noon-10, ""), b.value(1))
	require.Equal(t, "hello", b.value(3))
	require.Equal(t, released(noon), b.value(4))
	require.Equal(t, released(noon+9), b.value(5))
	require.Equal(t, []string{us}, listener.heard())
}
