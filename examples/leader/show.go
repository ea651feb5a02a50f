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
		fmt.Printf("requests go to the next leader, with a greater token: %t\n", token > last)
		last = token
		failed = end(running[address], len(running) == 2)
		delete(running, address)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// end ends a leader: kindly, or by a crash.
func end(leader *demo.Process, crash bool) error {
	if crash {
		fmt.Println("the leader is killed")
		return leader.Kill()
	}
	fmt.Println("the leader gets SIGTERM")
	if err := leader.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, err := leader.Wait()
	return err
}
