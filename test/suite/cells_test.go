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
	Slow  func(k Kind) (why string) // the reason why real servers would take too long to show it; "" or nil if they do not
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
	if k.Fits != nil && !slices.Contains(k.Fits, p.Name) {
		return "its keys are those of a group, see test/virtual"
	}
	if p.Not == nil {
		return ""
	}
	return p.Not(k)
}

// either returns the first reason of several.
func either(reasons ...func(k Kind) string) func(k Kind) string {
	return func(k Kind) (why string) {
		for _, reason := range reasons {
			if why = reason(k); why != "" {
				break
			}
		}
		return why
	}
}

// cell is a promise of a kind in a world.
type cell struct {
	promise Promise
	kind    Kind
	world   string
}

// worlds returns the worlds that SIGNALBOX_WORLDS names: without any the one in virtual time.
func worlds() []string {
	if named := strings.Fields(os.Getenv("SIGNALBOX_WORLDS")); len(named) > 0 {
		return named
	}
	return []string{virtual}
}

// cells returns the whole table of these worlds.
func cells(worlds []string) (all []cell) {
	for _, world := range worlds {
		for _, p := range Promises() {
			for _, k := range Kinds() {
				if c := (cell{p, k, world}); c.whyNot() == "" {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// whyNot returns why there is no such cell.
func (c cell) whyNot() string {
	switch {
	case c.promise.Only != "" && c.promise.Only != c.world:
		return "only the world " + c.promise.Only + " can show it"
	case c.kind.Servers > 1 && c.world != virtual:
		return "real worlds have one server or one topology"
	case c.promise.reason(c.kind) != "":
		return c.promise.reason(c.kind)
	case c.promise.Slow != nil && c.world != virtual:
		return c.promise.Slow(c.kind)
	}
	return ""
}

func (c cell) name() string { return fmt.Sprintf("%s/%s/%s", c.promise.Name, c.kind.Name, c.world) }

// run tries the promise.
func (c cell) run(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("SIGNALBOX_CELL=%q go test ./suite -run TestPromises", c.name())
		}
	}()
	inWorld(t, c.world, max(c.kind.Servers, 1), func(w *World) { c.promise.Try(w, c.kind) })
}
