// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// patience bounds what takes milliseconds unless something is broken.
const patience = 30 * time.Second

// ramDisk is where files have no disk.
const ramDisk = "/dev/shm"

// versionOf returns what a program says about its version.
func versionOf(binary string) (string, error) {
	out, err := exec.Command(binary, "--version").CombinedOutput() //nolint:noctx // it ends by itself
	if err != nil {
		return "", fmt.Errorf("%s: %w", binary, err)
	}
	return regexp.MustCompile(`\d+\.\d+(\.\d+)?`).FindString(string(out)), nil
}

// tool returns the path of a program that is a tool of this module. Go builds it the first time.
func tool(pkg string) (string, error) {
	var problem bytes.Buffer
	command := exec.Command("go", "tool", "-n", pkg) //nolint:noctx // it ends by itself
	command.Stderr = &problem
	command.Env = append(os.Environ(), "GOWORK=off") // this module is not in go.work
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go tool %s: %w: %s", pkg, err, &problem)
	}
	return strings.TrimSpace(string(out)), nil
}

// folderFor returns a new folder for the files of a server, in memory or on a disk.
func folderFor(form string) (string, error) {
	parent := ""
	if form == inMemory {
		parent = ramDisk
	}
	return os.MkdirTemp(parent, "signalbox-stores-")
}

// daemon is a program that runs until it is stopped.
type daemon struct {
	path string
	args []string
	as   *syscall.Credential // nil for the user of this process
}

// run starts the program. stop ends it and removes its folder.
func (d daemon) run(folder string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, d.path, d.args...)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: d.as}
	if err := command.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", d.path, err)
	}
	return func() {
		cancel()
		_ = command.Wait() // it was killed
		_ = os.RemoveAll(folder)
	}, nil
}

// await blocks until a process that join returns acquires a lock.
func await(join func() (process, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		p, err := join()
		if err == nil {
			var unlock func() error
			if unlock, err = p.lock(ctx, "first"); err == nil {
				err = unlock()
			}
			err = errors.Join(err, p.close())
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(100 * time.Millisecond)
	}
}

// freeAddresses returns addresses of loopback that are free.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("a free port: %w", err)
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

func pause(d time.Duration) { <-time.NewTimer(d).C }
