// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// What a process that Start started finds in its environment.
const (
	nameVariable = "SIGNALBOX_EXAMPLE_PROCESS"
	urlVariable  = "SIGNALBOX_EXAMPLE_URL"
)

// Processes is Main for a program of several processes: show runs in the process that the user started, and
// process in each one that Start starts, with its name.
func Processes(show func(ctx context.Context, url string) error, process func(ctx context.Context, url, name string) error) {
	name := os.Getenv(nameVariable)
	if name == "" {
		Main(show)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := process(ctx, os.Getenv(urlVariable), name)
	cancel()
	exit(err)
}

// Process is a process that Start started. One goroutine at a time may use it.
type Process struct {
	command *exec.Cmd
	lines   chan string // the lines of the output; closed by the goroutine that reads it
}

// Start starts this program again, as the process of that name. What it prints is printed here as well. It is killed
// when ctx ends.
func Start(ctx context.Context, url, name string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), nameVariable+"="+name, urlVariable+"="+url)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{command, make(chan string, 1000)}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process's output
		defer close(p.lines)
		for all := bufio.NewScanner(output); all.Scan(); {
			fmt.Println(all.Text())
			p.lines <- all.Text()
		}
	}()
	return p, nil
}

// Await reads what the process prints up to a line that begins with prefix, and returns the rest of that line.
func (p *Process) Await(prefix string) (string, error) {
	for line := range p.lines {
		if rest, found := strings.CutPrefix(line, prefix); found {
			return rest, nil
		}
	}
	return "", fmt.Errorf("a process ended before it printed %q", prefix)
}

// Kill kills the process, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	_, _ = p.Wait() // "signal: killed"
	return nil
}

// Signal sends the process a signal.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Wait waits until the process has ended, and returns the lines that Await has not read. An exit code other than 0 is an
// error.
func (p *Process) Wait() (rest []string, err error) {
	for line := range p.lines {
		rest = append(rest, line)
	}
	return rest, p.command.Wait()
}
