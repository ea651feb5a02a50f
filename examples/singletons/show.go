// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"syscall"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/shards"
)

// show starts five pods, and ends those that have a job until one job has no pod.
func show(ctx context.Context, url string) error {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	group := newGroup(session, "")
	pods := make(map[string]*demo.Process)
	for i := range 5 {
		pod := fmt.Sprint("pod ", i+1)
		if pods[pod], err = demo.Start(ctx, url, pod); err != nil {
			return err
		}
	}
	if err := await(ctx, group, len(pods), 0); err != nil {
		return err
	}
	kill := func(p *demo.Process) error { return p.Kill() }
	for _, end := range []struct {
		job, how string
		by       func(*demo.Process) error
		unowned  int
	}{
		{"mailer", "gets SIGTERM", terminate, 0},
		{"billing", "is killed", kill, 0},
		{"cleanup", "gets SIGTERM", terminate, 1},
	} {
		before, err := group.Owner(ctx, end.job)
		if err != nil {
			return err
		}
		fmt.Printf("the pod that runs %s %s\n", end.job, end.how)
		if err := end.by(pods[before.Value]); err != nil {
			return err
		}
		delete(pods, before.Value)
		if err := await(ctx, group, len(pods), end.unowned); err != nil {
			return err
		}
		after, err := group.Owner(ctx, end.job)
		if err != nil {
			return err
		}
		if after.Value != "" {
			fmt.Printf("another pod runs %s, with a greater token: %t\n", end.job, after.Token > before.Token)
		}
	}
	for _, pod := range pods {
		if err := terminate(pod); err != nil {
			return err
		}
	}
	return nil
}

// await waits until there are so many pods, and so many jobs that none of them runs.
func await(ctx context.Context, group *shards.Group, pods, unowned int) error {
	for view, err := range group.Watch(ctx) {
		if ctx.Err() != nil {
			return err
		}
		// A new group has its jobs when a pod has sent their names.
		if err != nil || view.Count == 0 || len(view.Members) != pods || view.Unowned != unowned || view.Draining > 0 {
			continue
		}
		fmt.Printf("%d pods run %d of %d jobs\n", pods, view.Count-unowned, view.Count)
		return nil
	}
	return ctx.Err()
}

// terminate ends a process kindly.
func terminate(p *demo.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, err := p.Wait()
	return err
}
