// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation did to the lock, as far as its client knows.
type kind int

const (
	took     kind = iota // the lock was free, and is the client's, with a token
	refused              // the lock was held
	gave                 // the lock was the client's, and is free
	ended                // if the lock was the client's still, it is free
	mayTake              // a ghost took the lock if it was free, or did not
	mayLeave             // if a ghost has the lock, it is free
)

// op is an operation: by whom, and with which token. Ghosts have numbers of their own.
type op struct {
	kind  kind
	who   int
	token uint64
}

func (o op) String() string {
	names := [...]string{"took", "refused", "gave", "ended", "may take", "may leave"}
	return fmt.Sprintf("%d %s %d", o.who, names[o.kind], o.token)
}

// lock is the model: the holder, its token, and the greatest token so far.
type lock struct {
	who        int // 0 is no holder
	token, max uint64
}

// step returns what the lock may be after o; nothing where o cannot have happened.
func (l lock) step(o op) []any {
	mine := l.who == o.who && l.token == o.token
	free := lock{max: l.max}
	switch {
	case o.kind == took && l.who == 0 && o.token > l.max:
		return []any{lock{o.who, o.token, o.token}}
	case o.kind == refused && l.who != 0:
		return []any{l}
	case o.kind == gave && mine:
		return []any{free}
	case o.kind == ended && mine, o.kind == mayLeave && l.who == o.who:
		return []any{free}
	case o.kind == ended, o.kind == mayLeave:
		return []any{l}
	case o.kind == mayTake && l.who == 0:
		return []any{l, lock{who: o.who, max: l.max}}
	case o.kind == mayTake:
		return []any{l}
	}
	return nil
}

func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{lock{}} },
		Step: func(state, input, _ any) []any {
			return state.(lock).step(input.(op))
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
	return m.ToModel()
}
