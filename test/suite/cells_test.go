// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Promise is a row of the table: what is tried, and for which kinds and worlds it cannot be.
type Promise struct {
	Name  string                    // "P6/a waiter dies": the number in docs/guarantees.md, and what happens
	Try   func(w *World, k Kind)    // fails the test of the world if the kind does not keep the promise
	Not   func(k Kind) (why string) // the reason why the kind makes no such promise; "" if it does, nil if all do
	Only  string                    // the only world in which it can be tried, "" if it can be in all
	Alone bool                      // no other cell runs meanwhile: what the whole process shares is changed
}

// only says that no other kinds make the promise, and why.
func only(why string, kinds ...string) func(k Kind) string {
	return func(k Kind) string {
		if slices.Contains(kinds, k.Name) {
			return ""
		}
		return why
	}
}

// reason returns why the kind makes no such promise, "" if it does.
func (p Promise) reason(k Kind) string {
	if p.Not == nil {
		return ""
	}
	return p.Not(k)
}

// cell is a promise of a kind in a world.
type cell struct {
	promise Promise
	kind    Kind
	world   string
}

// worlds returns virtual time, and the worlds that SIGNALBOX_WORLDS names.
func worlds() []string {
	return append([]string{virtual}, strings.Fields(os.Getenv("SIGNALBOX_WORLDS"))...)
}

// cells returns the whole table.
func cells() (all []cell) {
	for _, world := range worlds() {
		for _, p := range Promises() {
			for _, k := range Kinds() {
				if p.reason(k) == "" && (p.Only == "" || p.Only == world) {
					all = append(all, cell{p, k, world})
				}
			}
		}
	}
	return all
}

func (c cell) name() string { return fmt.Sprintf("%s/%s/%s", c.promise.Name, c.kind.Name, c.world) }

// run tries the promise.
func (c cell) run(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("SIGNALBOX_CELL=%q go test ./suite", c.name())
		}
	}()
	inWorld(t, c.world, func(w *World) { c.promise.Try(w, c.kind) })
}
