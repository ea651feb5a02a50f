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
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// upgrade runs two processes of a tagged version beside two of the checkout, each with a command of its version. They share every
// kind of lock, on servers that are new.
func upgrade(root, work string, env []string, library, program, version string) error {
	bin, peer := filepath.Join(work, "bin"), filepath.Join(work, "peer")
	command, tagged, present := path.Base(program), filepath.Join(bin, "upgrade-tagged"), filepath.Join(bin, "upgrade-present")
	source, err := os.ReadFile(filepath.Join(root, "test", "upgrade", "main.go"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(peer, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(peer, "main.go"), source, 0o600); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"install", program + "@" + version}, {"mod", "init", "example.com/peer"}, {"get", ".", library + "@" + version}, {"build", "-o", tagged, "."},
	} {
		if _, err := goCommand(peer, env, step...); err != nil {
			return err
		}
	}
	here := []string{"GOWORK="}
	if _, err := goCommand(filepath.Join(root, "test"), here, "build", "-o", present, "./upgrade"); err != nil {
		return err
	}
	if _, err := goCommand(filepath.Join(root, strings.TrimPrefix(program, library+"/")), here, "build", "-o", filepath.Join(bin, "present"), "."); err != nil {
		return err
	}
	var urls []string
	for range 3 {
		url, stop, err := server(work)
		if err != nil {
			return err
		}
		defer stop()
		urls = append(urls, url)
	}
	meeting := filepath.Join(work, "meeting")
	if err := os.Mkdir(meeting, 0o755); err != nil {
		return err
	}
	processes := [][2]string{{tagged, command}, {present, "present"}, {tagged, command}, {present, "present"}}
	errs := make([]error, len(processes))
	var wait sync.WaitGroup
	start := time.Now()
	for i, p := range processes {
		wait.Go(func() {
			out, err := exec.Command(p[0], strings.Join(urls, ","), meeting, strconv.Itoa(len(processes)), strconv.Itoa(i), filepath.Join(bin, p[1])).CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w: %s", filepath.Base(p[0]), err, bytes.TrimSpace(out))
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%d processes of %s and of the checkout shared every kind of lock for %.1f s\n", len(processes), version, time.Since(start).Seconds())
	return nil
}

// server starts the server that the tests use, on a free port of the loopback interface.
func server(dir string) (url string, stop func(), err error) {
	program := os.Getenv("SIGNALBOX_TEST_SERVER")
	if program == "" {
		program = "redis-server"
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr := listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert,errcheck // it was asked for
	if err := listener.Close(); err != nil {
		return "", nil, err
	}
	process := exec.Command(program, "--port", strconv.Itoa(addr.Port), "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	if err := process.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = process.Process.Kill(); _ = process.Wait() }
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for range 500 { // ten seconds
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr.String()); err == nil {
			return "redis://" + addr.String(), stop, conn.Close()
		}
		<-poll.C
	}
	stop()
	return "", nil, fmt.Errorf("%s does not listen: %w", program, err)
}
