// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

// Each mutant of a proof is one of the list, and a cell is known that notices it.
func TestEachControlIsAMutant(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	list, verdicts, n := read(root+"/dev/tools/mutate/mutants.txt"), read(root+"/dev/tools/mutate/verdicts.txt"), 0
	for line := range strings.Lines(read("mutants.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		require.Contains(t, list, "\n"+line)
		isKilled := false
		for verdict := range strings.Lines(verdicts) {
			isKilled = isKilled || strings.HasPrefix(verdict, "killed\ttest/suite\t") && strings.HasSuffix(verdict, "\t"+line)
		}
		require.True(t, isKilled, "dev/tools/mutate/verdicts.txt names no cell of test/suite that kills: %s", line)
	}
	require.Equal(t, 5, n)
}

// The tables of a run replace those of the page, and nothing else.
func TestThePageTakesTheTablesOfARun(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/reliability.md")
	require.NoError(t, err)
	p := &proof{root: t.TempDir(), short: true, steps: newSteps()}
	p.dir = filepath.Join(p.root, "proof")
	name := filepath.Join(p.root, "docs", "reliability.md")
	require.NoError(t, os.Mkdir(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, page, 0o600))
	require.Error(t, p.writePage(), "there was no run")
	p.tables()
	require.NoError(t, os.WriteFile(p.dir+".md", []byte(p.out.String()), 0o600))
	require.NoError(t, p.writePage())
	written, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, head := range []string{"|planted|", "|kind|", "|what happened|", "|engine|"} {
		require.Equal(t, 1, bytes.Count(written, []byte(head)))
	}
	outside := func(text string) (out string) {
		for i, part := range strings.Split(text, "<!-- written by") {
			if i > 0 {
				_, part, _ = strings.Cut(part, end)
			}
			out += part
		}
		return out
	}
	require.Equal(t, outside(string(page)), outside(string(written)))
}

// A floor that is not met fails the run, and so does an overlap.
func TestWhatIsMissingFails(t *testing.T) {
	t.Parallel()
	p := &proof{short: true, steps: []*step{{name: "storm", rows: []tally.Row{{Group: "grants", Name: "fair", N: 30}, {Group: "overlaps", Name: "once"}, {Group: "overlaps", Name: "fair", N: 1}}}}}
	p.tables()
	all := strings.Join(p.failed, "\n")
	require.NotContains(t, all, "grants of each kind: fair")
	require.Contains(t, all, "grants of each kind: once: 0, needed 20")
	require.Contains(t, all, "failovers that lose writes: 0, needed 1")
	require.Contains(t, all, "overlaps: 1, of fair")
	require.Contains(t, all, "overlaps of reentrant were not counted")
	require.NotContains(t, all, "overlaps of once were not counted")
	require.Contains(t, all, "it happened: a slot moves: 0, needed 1")
}

// A step that draws what happens continues by further seeds until its floors are met, three times at most, and not after a failure.
func TestAStepContinuesUntilItsFloorsAreMet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		again, fails bool
		floors, runs int
	}{"met": {true, false, 1, 1}, "then met": {true, false, 2, 2}, "never met": {true, false, 9, 3}, "failed": {true, true, 9, 1}, "not drawn": {false, false, 9, 1}} {
		runs := 0
		p := &proof{dir: t.TempDir(), short: true}
		p.take(&step{name: "virtual", again: c.again, run: func(p *proof) {
			require.EqualValues(t, runs, p.round, name)
			if runs++; c.fails {
				p.fail("it fails")
			}
			for _, f := range allFloors() {
				if f.step == "virtual" && runs >= c.floors {
					line, err := json.Marshal(tally.Row{Group: f.group, Name: append(f.names, "any")[0], N: f.short})
					require.NoError(t, err)
					file, err := os.OpenFile(p.tallyOf("virtual"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
					require.NoError(t, err)
					_, err = file.Write(append(line, '\n'))
					require.NoError(t, errors.Join(err, file.Close()))
				}
			}
		}})
		require.Equal(t, c.runs, runs, name)
	}
}

// A mutant that only spoils tests is none that they found, and a model without a run shows nothing.
func TestAControlHasToFindItsMutant(t *testing.T) {
	t.Parallel()
	p := &proof{steps: []*step{{name: "controls"}, {name: "models"}}, mutants: []mutant{{breaks: "grant", status: "spoilt"}, {breaks: "token", status: "killed"}}}
	p.tables()
	all := strings.Join(p.failed, "\n")
	require.Contains(t, all, "breaks the grant was not found: spoilt")
	require.NotContains(t, all, "breaks the token")
	require.Contains(t, all, "models: 0 sound")
}

// Each incident of a storm has a floor.
func TestEachIncidentHasAFloor(t *testing.T) {
	t.Parallel()
	var source []byte
	for _, name := range []string{"storm", "crowd"} {
		text, err := os.ReadFile(root + "/test/suite/" + name + "_test.go")
		require.NoError(t, err)
		source = append(source, text...)
	}
	for _, name := range incidents {
		require.Contains(t, string(source), strconv.Quote(name))
	}
	begun := regexp.MustCompile(`(?:incident\{name: |lasting\(|refuses\()"([^"]*)"`)
	for _, found := range begun.FindAllSubmatch(source, -1) {
		require.Contains(t, incidents, string(found[1]))
	}
}

// The record has every mend once.
func TestTheRecordHasEachMend(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, (&proof{root: root}).printFaults(&out))
	require.Contains(t, out.String(), "renewal: keep renewing after the wall clock was set back")
	require.Contains(t, out.String(), "faults were mended")
}
