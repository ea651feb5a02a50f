// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// call is a call, or a part of one.
type call interface {
	AppendTo(args []string) []string
}

// callRow is a script and its call. The fields of the call that are texts are filled by the test, and the others by the row.
type callRow struct {
	script *scripts.Script
	call   call
}

// replyRow is a script and what reads its reply.
type replyRow struct {
	script *scripts.Script
	read   func(*wire.Reply) any
}

func reads[T any](read func(*wire.Reply) T) func(*wire.Reply) any {
	return func(r *wire.Reply) any { return read(r) }
}

// element is what a name in the returns lines of headers stands for: an element of the reply, and the field and the value that it is
// read as.
type element struct {
	sent  any
	field string
	value any
}

const noon wire.Stamp = 1_780_000_000_000_000

var (
	elements = map[string]element{
		"now": {noon.Text(), "Now", noon}, "stamp": {(noon + 1).Text(), "Stamp", noon + 1},
		"left_us": {7, "Left", 7 * time.Microsecond}, "left_ms": {7, "Left", 7 * time.Millisecond},
		"more": {1, "PollAtOnce", true}, "listens": {1, "IsHeard", true}, "old_gone": {1, "OldGone", true}, "had": {1, "WasHeld", true},
		"grants": {"grants", "Grants", "grants"}, "states": {"states", "States", "states"}, "unlisted": {"ticket", "Unlisted", "ticket"},
		"kind": {"k", "Kind", "k"}, "other": {"k", "Kind", "k"},
		"capacity": {9, "Capacity", int64(9)}, "all": {9, "Capacity", int64(9)}, "used": {4, "Used", int64(4)},
	}

	returnsLine = regexp.MustCompile(`(?m)^-- (?:returns|       ) +\{(-?\d), ([a-z_, ]+)\}  `)

	argLine   = regexp.MustCompile(`^-- ARGV\[(\d+|n)\]  +_?([a-z_]+)  `)
	partLine  = regexp.MustCompile(`^--          (?:  )?([a-z_]+)  `)
	capitals  = regexp.MustCompile(`([a-z]|TTL)([A-Z])`)
	endOfArgs = regexp.MustCompile(`^-- [a-z]`)
)

// argNames returns the names of the arguments in the header of a script, and those of the parts of the last one that has parts.
// ARGV[n] has the arguments of one key, which are its parts.
func argNames(s *scripts.Script) (names, parts []string) {
	inParts := false
	for line := range strings.Lines(s.Source) {
		switch m := argLine.FindStringSubmatch(line); {
		case m != nil && m[1] == "n":
			inParts = true
		case m != nil:
			names, inParts = append(names, m[2]), true
		case endOfArgs.MatchString(line) || !strings.HasPrefix(line, "--"):
			inParts = false
		case inParts && partLine.MatchString(line):
			parts = append(parts, partLine.FindStringSubmatch(line)[1])
		}
	}
	return names, parts
}

// fillWithNames sets each text of a call to its own name, as headers write it.
func fillWithNames(call reflect.Value) {
	for i := range call.NumField() {
		switch field := call.Field(i); field.Kind() {
		case reflect.String:
			field.SetString(strings.ToLower(capitals.ReplaceAllString(call.Type().Field(i).Name, "${1}_$2")))
		case reflect.Struct:
			fillWithNames(field)
		default:
		}
	}
}

// The header of a script is what all clients read.
func TestCallHasTheArgumentsOfTheHeader(t *testing.T) {
	t.Parallel()
	for _, row := range calls {
		t.Run(row.script.Name, func(t *testing.T) {
			t.Parallel()
			names, parts := argNames(row.script)
			if len(names) == 0 {
				names = parts
			}
			fillWithNames(reflect.ValueOf(row.call).Elem())
			require.Equal(t, names, row.call.AppendTo(nil))
		})
	}
}

// Each line of the header that returns a code and names is a reply.
func TestReplyIsReadAsTheHeaderSays(t *testing.T) {
	t.Parallel()
	for _, row := range replies {
		t.Run(row.script.Name, func(t *testing.T) {
			t.Parallel()
			lines := returnsLine.FindAllStringSubmatch(row.script.Source, -1)
			require.NotEmpty(t, lines)
			for _, m := range lines {
				code, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				sent, names := []any{code}, strings.Split(m[2], ", ")
				for _, name := range names {
					require.Contains(t, elements, name, m[0])
					sent = append(sent, elements[name].sent)
				}
				reply := redistest.Outcome(sent).Reply
				got := reflect.ValueOf(row.read(&reply))
				for _, name := range names {
					if field := got.FieldByName(elements[name].field); field.IsValid() { // else no caller needs it
						require.Equal(t, elements[name].value, field.Interface(), "%s%s", m[0], name)
					}
				}
				if field := got.FieldByName("Code"); field.IsValid() {
					require.Equal(t, wire.Code(code), field.Interface(), m[0])
				}
			}
		})
	}
}
