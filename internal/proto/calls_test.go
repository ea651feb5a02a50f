// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// callRow is a script and its call. The fields of the call that are texts are filled by the test, and the others by the row.
type callRow struct {
	script *scripts.Script
	call   interface {
		AppendTo(args []string) []string
	}
}

var (
	calls = slices.Concat(shardsCalls, countdownCalls, onceCalls, electionCalls, redlockCalls, holderCalls, sessionCalls)

	argLine   = regexp.MustCompile(`^-- ARGV\[(\d+|n)\]  +_?([a-z_]+)  `)
	partLine  = regexp.MustCompile(`^--            ?([a-z_]+)  `)
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
		switch field := call.Field(i); field.Kind() { //nolint:exhaustive // a call has no others
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
