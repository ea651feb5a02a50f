// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// table begins a part of the output that the page has as well, between marks of this name.
func (p *proof) table(name string, write func()) {
	fmt.Fprintf(&p.out, "%s\n", begin(name))
	write()
	fmt.Fprintf(&p.out, "%s\n\n", end)
}

func begin(name string) string { return "<!-- written by make proof-page: " + name + " -->" }

const end = "<!-- end -->"

// row writes a row of a table.
func (p *proof) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(&p.out, "|%v", c)
	}
	p.out.WriteString("|\n")
}

func (p *proof) head(names ...any) {
	p.row(names...)
	p.out.WriteString(strings.Repeat("|---", len(names)) + "|\n")
}

// tables writes all tables of the run, and compares counts with floors.
func (p *proof) tables() {
	p.out.WriteString("# Proof\n\n")
	p.table("run", func() { fmt.Fprintln(&p.out, p.machine()) })
	if s := p.step("controls"); s != nil {
		p.table("controls", func() { p.controlTable(s) })
	}
	if s := p.step("storm"); s != nil {
		p.table("kinds", func() { p.kindTable(s) })
		p.table("faults", func() { p.faultTable(s) })
		var inside []string
		for _, name := range s.names("faults") {
			inside = append(inside, fmt.Sprintf("%s %d", name, s.count("faults", name)))
		}
		fmt.Fprintf(&p.out, "As the kits counted them: %s.\n\n", strings.Join(inside, ", "))
	}
	p.table("engines", p.engineTable)
	p.out.WriteString("Floors:\n\n")
	p.head("at least", "needed", "seen")
	for _, f := range allFloors() {
		if s := p.step(f.step); s != nil {
			p.compare(f, s.count(f.group, f.names...))
		}
	}
	if s := p.step("storm"); s != nil {
		for _, group := range mayNotBe {
			for _, k := range kinds {
				if !slices.Contains(s.names(group), k) {
					p.fail("%s of %s were not counted", group, k)
				}
			}
		}
	}
	if p.step("controls") != nil {
		for _, m := range p.mutants {
			if m.status != "killed" { // one that hangs, or makes other tests fail, does so on a busy machine without a mutant
				p.fail("the mutant that breaks the %s was not found: %s", m.breaks, m.status)
			}
		}
	}
	if p.step("models") != nil && (p.models.sound == 0 || p.models.broken == 0) {
		p.fail("models: %d sound, %d broken", p.models.sound, p.models.broken)
	}
	for _, r := range p.violations() {
		if r.N > 0 {
			p.fail("%s: %d, of %s", r.Group, r.N, r.Name)
		}
	}
}

// violations returns the counts that are to be zero.
func (p *proof) violations() (all []tally.Row) {
	for _, s := range p.steps {
		for _, r := range s.rows {
			isLost := r.Group == "lost updates" && r.Name != "without tokens"
			if slices.Contains(mayNotBe, r.Group) || isLost || r.Group == "histories" && r.Name == "illegal" {
				all = append(all, r)
			}
		}
	}
	return all
}

// needed returns what this run has to reach.
func (p *proof) needed(f floor) int64 {
	if p.short {
		return f.short
	}
	return f.long
}

// missed returns the floors that a step has not reached.
func (p *proof) missed(s *step) (says []string) {
	for _, f := range allFloors() {
		if f.step == s.name && s.count(f.group, f.names...) < p.needed(f) {
			says = append(says, f.says)
		}
	}
	return says
}

func (p *proof) compare(f floor, seen int64) {
	needed := p.needed(f)
	p.row(f.says, needed, seen)
	if seen < needed {
		p.fail("floor of %s: %s: %d, needed %d", f.step, f.says, seen, needed)
	}
}

func (p *proof) controlTable(s *step) {
	p.head("planted", "found by")
	p.row("a store without tokens, under pauses", fmt.Sprintf("%d of %d updates lost; with tokens, %d of %d, and %d refused", s.count("lost updates", "without tokens"),
		s.count("updates", "without tokens"), s.count("lost updates", "with tokens"), s.count("updates", "with tokens"), s.count("refused updates", "with tokens")))
	for _, m := range p.mutants {
		p.row("mutant of the "+m.breaks, m.status+": "+m.cell)
	}
	for _, c := range planted[1:] {
		p.row(c.checker, "`"+c.folder+"/"+c.test+"`")
	}
	if p.step("models") != nil {
		p.row("rules dropped from the models", fmt.Sprintf("%d of %d runs find a broken promise", p.models.broken, p.models.broken+p.models.wrong))
	}
}

func (p *proof) kindTable(s *step) {
	p.head("kind", "grants checked, in a loss", "overlaps, in a loss", "falling tokens", "lost updates", "unknown outcomes", "keys, goroutines left", "longest wait, s")
	for _, k := range kinds {
		updates := "–"
		if n := s.count("updates", k); n > 0 {
			updates = fmt.Sprintf("%d of %d", s.count("lost updates", k), n)
		}
		falling := strconv.FormatInt(s.count("falling tokens", k), 10)
		if k == "redisson" || k == "setnx" {
			falling = "–"
		}
		beside := func(group string) string {
			return fmt.Sprintf("%d, %d", s.count(group, k), s.count(group+" in a loss", k))
		}
		p.row(k, beside("grants"), beside("overlaps"), falling, updates, s.count("outcome unknown", k),
			fmt.Sprint(s.count("keys left", k), ", ", s.count("goroutines left", k)), fmt.Sprintf("%.1f", s.row("longest wait", k).Longest()/1000))
	}
}

func (p *proof) faultTable(s *step) {
	p.head("what happened", "times", "next grant: median, ms", "longest, ms")
	for _, name := range s.names("incidents") {
		r := s.row("recovery", name)
		median, longest := "–", "–" // each time something else failed beside it
		if r.N > 0 {
			median, longest = fmt.Sprintf("%.0f", r.Median()), fmt.Sprintf("%.0f", r.Longest())
		}
		p.row(name, s.count("incidents", name), median, longest)
	}
}

func (p *proof) engineTable() {
	p.head("engine", "what it did", "command")
	if s := p.step("storm"); s != nil {
		judged := "not judged"
		if h := p.step("histories"); h != nil {
			judged = fmt.Sprintf("%d histories of %d operations, %d undecided, %d that no order explains", h.count("histories", "histories"),
				h.count("operations"), h.count("histories", "unknown"), h.count("histories", "illegal"))
		}
		p.row("processes on real servers, judged by porcupine", fmt.Sprintf("%d incidents, %d grants; %s", s.count("incidents"), s.count("grants")+s.count("grants in a loss"), judged), "`make proof ONLY=storm,histories`")
	}
	if s := p.step("virtual"); s != nil {
		virtual, wall := 0.0, 0.0
		for _, ms := range s.row("virtual", "time").Times {
			virtual += ms
		}
		for _, ms := range s.row("virtual", "on the wall").Times {
			wall += ms
		}
		p.row("random faults in virtual time", fmt.Sprintf("%d seeds of bad wires, %d of shards, %d faults, %d uses, %.1f hours at %.0f times the speed", s.count("seeds", "bad wires"),
			s.count("seeds", "shards"), s.count("faults"), s.count("uses"), virtual/3600e3, virtual/max(wall, 1)), "`make proof ONLY=virtual SEED=1`")
		p.row("walks over all scripts", fmt.Sprintf("%d walks; %d repeated, %d times in all, with the same trace", s.count("seeds", "walks"), len(s.names("replays")), s.count("replays")), "`cd test && go test ./walks`")
	}
	if p.step("models") != nil {
		p.row("models, by spin", fmt.Sprintf("%d sound, %d broken as they must be, %d otherwise, %d states", p.models.sound, p.models.broken, p.models.wrong, p.models.states), "`make model`")
	}
}

// writePage puts the tables of the last run into the page, each between its marks.
func (p *proof) writePage() error {
	name := filepath.Join(p.root, "docs", "reliability.md")
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	run, err := os.ReadFile(p.dir + ".md")
	if err != nil {
		return err
	}
	text := string(page)
	for _, part := range []string{"run", "controls", "kinds", "faults", "engines"} {
		before, rest, isThere := strings.Cut(text, begin(part))
		_, after, hasEnd := strings.Cut(rest, end)
		if !isThere || !hasEnd {
			return fmt.Errorf("%s has no %s", name, begin(part))
		}
		_, rest, isThere = strings.Cut(string(run), begin(part))
		table, _, hasEnd := strings.Cut(rest, end)
		if !isThere || !hasEnd {
			return fmt.Errorf("the last run has no %s: run all steps", part)
		}
		text = before + begin(part) + table + end + after
	}
	return os.WriteFile(name, []byte(text), 0o600)
}
