// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"syscall"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
)

// show starts the processes, and ends one leader after the other until no process is left.
func show(ctx context.Context, url string) error {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	running := make(map[string]*demo.Process)
	for _, address := range []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"} {
		if running[address], err = demo.Start(ctx, url, address); err != nil {
			return err
		}
	}
	var last uint64
	var failed error
	err = route(ctx, session, func(address string, token uint64) bool {
		switch {
		case token == 0 && len(running) == 0:
			fmt.Println("no process leads")
			return false
		case address == "" || token == last:
			return true // between two leaders, or not announced yet
		}
		fmt.Printf("requests go to %s, with a greater token: %t\n", address, token > last)
		last = token
		if len(running) == 2 {
			fmt.Println(address, "is killed")
			failed = running[address].Kill()
		} else {
			fmt.Println(address, "gets SIGTERM")
			failed = terminate(running[address])
		}
		delete(running, address)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// terminate ends a process kindly.
func terminate(p *demo.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, err := p.Wait()
	return err
}
