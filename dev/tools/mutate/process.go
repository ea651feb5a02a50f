// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox/dev/tools/mutate/worker"
)

// stage is a test binary that tries mutants: the tests of one folder.
type stage struct {
	folder       string
	binary, base string // base is the file with what each cell reaches
	root         string
	isLong       bool
	patience     time.Duration
	cells        []string // the only cells, all if there are none
}

// process is one that runs a stage. Nothing of it outlives it: it is a process group of its own, and what
// internal/testing/redistest started ends with it.
type process struct {
	cmd     *exec.Cmd
	jobs    *json.Encoder
	reports *os.File
	decoder *json.Decoder
	log     string
}

func (s *stage) start() (*process, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	log, err := os.CreateTemp(filepath.Dir(s.base), "log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{cmd: exec.Command(s.binary, "-test.run=^TestZZMutants$", "-test.timeout=0", "-test.paniconexit0"), reports: in, decoder: json.NewDecoder(in), log: log.Name()}
	if !s.isLong {
		p.cmd.Args = append(p.cmd.Args, "-test.short")
	}
	p.cmd.Dir, p.cmd.Env = filepath.Join(s.root, s.folder), append(os.Environ(), "GOWORK=", "GOMAXPROCS=1", "TMPDIR="+filepath.Dir(s.base), worker.EnvBase+"="+s.base, worker.EnvCells+"="+strings.Join(s.cells, "\n"))
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = log, log, []*os.File{out}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	jobs, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.jobs = json.NewEncoder(jobs)
	return p, p.cmd.Start()
}

// end ends the process, and what it started.
func (p *process) end() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	_ = p.reports.Close()
	_ = os.Remove(p.log)
}

// wait returns the next report with a status, and the one of the cell before it. A process that ends without a report has crashed.
func (p *process) wait() (last, at worker.Report) {
	for {
		var r worker.Report
		if err := p.decoder.Decode(&r); err != nil {
			return worker.Report{Status: crashed}, at
		}
		if r.Status != "" {
			return r, at
		}
		at = r
	}
}

// ready starts a process that tries mutants. The first one runs all cells without a mutant; those that end it are left out.
func (s *stage) ready() (p *process, cells int, err error) {
	for range 20 {
		if p, err = s.start(); err != nil {
			return nil, 0, err
		}
		r, at := p.wait()
		if r.Status == worker.Ready {
			return p, r.Reached, nil
		}
		text, _ := os.ReadFile(p.log)
		p.end()
		err = fmt.Errorf("%s ends without a mutant, in %q:\n%s", s.folder, at.Cell, text[max(0, len(text)-2000):])
	}
	return nil, 0, err
}

// workshop tries mutants with one process, and with the next one if that has ended.
type workshop struct {
	*stage

	p *process
}

// try tries a mutant. If the process ends meanwhile, a new one begins with the cell that ended it.
func (w *workshop) try(j worker.Job) (r worker.Report, err error) {
	j.Patience = w.patience
	for range 5 {
		if w.p == nil {
			if w.p, _, err = w.ready(); err != nil {
				return r, err
			}
		}
		if err := w.p.jobs.Encode(j); err != nil && !errors.Is(err, syscall.EPIPE) {
			return r, err
		}
		r, at := w.p.wait()
		if r.Status != crashed && r.Status != worker.Hung && r.Status != worker.Spoilt {
			return r, nil
		}
		w.end()
		switch {
		case at.Cell != "" && at.Cell == j.First && !at.IsPlain: // it passed without the mutant in a new process
			r.Cell = at.Cell
			return r, nil
		case at.Cell == j.First:
			j.First, j.Skip = "", append(j.Skip, at.Cell)
		default:
			j.First = at.Cell
		}
	}
	return worker.Report{Status: worker.Survived, Cell: "in doubt: " + j.First}, nil
}

func (w *workshop) end() {
	if w.p != nil {
		w.p.end()
		w.p = nil
	}
}
