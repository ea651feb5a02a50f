// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// What a process of this program is when it was started by another.
const (
	roleVariable = "SIGNALBOX_QUICKSTART_ROLE"
	roleWorker   = "worker"
	roleDoomed   = "doomed"
)

// startRole starts this program again in a role, with a pipe from its standard output.
func startRole(ctx context.Context, role string) (*exec.Cmd, *bufio.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return command, bufio.NewReader(output), command.Start()
}

// beWorker counts, in a process of its own.
func beWorker(ctx context.Context) error {
	p, err := openPlace(ctx)
	if err != nil {
		return err
	}
	return countAlone(ctx, p)
}

// beDoomed takes the lock, says so, and holds it until it is killed.
func beDoomed(ctx context.Context) error {
	p, err := openPlace(ctx)
	if err != nil {
		return err
	}
	s, err := p.session(ctx)
	if err != nil {
		return err
	}
	lease, err := reentrant.New(s, doomedName, signalbox.RenewedLease(shortLease)).Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println(lease.Token())
	<-ctx.Done()
	return lease.Unlock()
}
