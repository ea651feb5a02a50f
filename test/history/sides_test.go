// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// reads reports whether a client is a reader: every other one.
func reads(who int) bool { return who%2 == 1 }

// sides lets every other client read.
func sides(who int) locktest.Primitive {
	if reads(who) {
		return locktest.Reader()
	}
	return locktest.Writer()
}

// rwlock is the model of a lock with readers: who writes, with which token, who reads, and the greatest tokens so far,
// of all and of writers.
type rwlock struct {
	writer  int // 0 is no writer
	readers uint64
	token   uint64
	any     uint64
	writers uint64
}

// bit is a reader's among the readers. The clients of one lock have numbers that follow each other, fewer than 64.
func bit(who int) uint64 { return 1 << (who % 64) }

// step returns what the lock may be after o; nothing where o cannot have happened.
func (r rwlock) step(o op) []any {
	if reads(o.who) {
		return r.read(o)
	}
	mine := r.writer == o.who && r.token == o.token
	free := rwlock{any: r.any, writers: r.writers}
	switch {
	case o.kind == took && r.writer == 0 && r.readers == 0 && o.token > r.any:
		return []any{rwlock{writer: o.who, token: o.token, any: o.token, writers: o.token}}
	case o.kind == refused && (r.writer != 0 || r.readers != 0):
		return []any{r}
	case (o.kind == gave || o.kind == ended) && mine:
		return []any{free}
	case o.kind == ended:
		return []any{r}
	}
	return nil
}

func (r rwlock) read(o op) []any {
	after := r
	switch {
	case o.kind == took && r.writer == 0 && r.readers&bit(o.who) == 0 && o.token > r.writers:
		after.readers |= bit(o.who)
		after.any = max(r.any, o.token)
	case (o.kind == gave || o.kind == ended) && r.readers&bit(o.who) != 0:
		after.readers &^= bit(o.who)
	case o.kind != ended:
		return nil
	}
	return []any{after}
}

func modelOfSides() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{rwlock{}} },
		Step: func(state, input, _ any) []any {
			return state.(rwlock).step(input.(op))
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
	return m.ToModel()
}

// ofSides returns those of the operations that the model knows: a reader is refused while a writer waits, which no client knows.
func ofSides(history []porcupine.Operation) []porcupine.Operation {
	return slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool {
		in := o.Input.(op)
		return in.kind == refused && in.who > 0 && reads(in.who)
	})
}

func newGameOfSides(t *testing.T, faults []redistest.FaultKind) *game {
	t.Helper()
	g := newGame(t, locktest.Writer(), faults)
	g.side, g.model, g.known = sides, modelOfSides, ofSides
	return g
}

// P1, P3: the results of readers and writers of one lock on failing connections can be explained by one lock.
func TestHistoriesOfReadersAndWritersAreThoseOfALock(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, silent)
	g := newGameOfSides(t, quick())
	for _, history := range g.play(t, 2, 6, 10) {
		g.check(t, history)
	}
}

// The checker finds a reader beside a writer, and a writer whose token is not greater than a reader's before it.
func TestPlantedMistakesOfSidesAreFound(t *testing.T) {
	t.Parallel()
	checks(t, modelOfSides(), map[string]played{
		"ReadersBesideEachOther": {porcupine.Ok, []porcupine.Operation{
			tookAt(0, 1, 10), tookAt(2, 3, 9), gaveAt(4, 1, 10), gaveAt(6, 3, 9), tookAt(8, 2, 11),
		}},
		"ReaderBesideAWriter": {porcupine.Illegal, []porcupine.Operation{tookAt(0, 2, 10), tookAt(2, 1, 11), gaveAt(4, 2, 10)}},
		"WriterBesideAReader": {porcupine.Illegal, []porcupine.Operation{tookAt(0, 1, 10), tookAt(2, 2, 11), gaveAt(4, 1, 10)}},
		"WriterBelowAReader":  {porcupine.Illegal, []porcupine.Operation{tookAt(0, 1, 10), gaveAt(2, 1, 10), tookAt(4, 2, 9)}},
		"ReaderBelowAWriter":  {porcupine.Illegal, []porcupine.Operation{tookAt(0, 2, 10), gaveAt(2, 2, 10), tookAt(4, 1, 9)}},
	})
}

func TestSoakHistoriesOfReadersAndWritersAreThoseOfALock(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which closes its sessions
			faults := quick()
			if i%2 == 1 {
				faults = redistest.FaultKinds()
			}
			g := newGameOfSides(t, faults)
			for _, history := range g.play(t, 2, 6, 30) {
				g.check(t, history)
			}
		})
	}
}
