// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience bounds what takes milliseconds unless something is broken.
const patience = 30 * time.Second

// memory is where files have no disk.
const memory = "/dev/shm"

// etcdBinary returns the path of etcd.
func etcdBinary() (string, error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("no etcd to measure: %w", err)
	}
	return path, nil
}

// startEtcd returns etcd's side, on a server of its own that keeps its data in a new folder of folder.
func startEtcd(name, folder string) (*side, error) {
	binary, err := etcdBinary()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(folder, "signalbox-etcd-")
	if err != nil {
		return nil, fmt.Errorf("a folder for etcd: %w", err)
	}
	client, peer, err := addresses()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary,
		"--data-dir", filepath.Join(data, "etcd"), "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
	)
	if err := command.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	end := func() {
		cancel()
		_ = command.Wait() // it was killed
		_ = os.RemoveAll(data)
	}
	if err := awaitEtcd(client); err != nil {
		end()
		return nil, err
	}
	return &side{name, "etcd " + client, func() (count, error) { return received(client) }, end}, nil
}

// addresses returns two addresses that are free.
func addresses() (client, peer string, err error) {
	var listeners [2]net.Listener
	for i := range listeners {
		listeners[i], err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", fmt.Errorf("a free port: %w", err)
		}
		defer func() { err = errors.Join(err, listeners[i].Close()) }()
	}
	return "http://" + listeners[0].Addr().String(), "http://" + listeners[1].Addr().String(), nil
}

// awaitEtcd returns when the server serves a member.
func awaitEtcd(url string) error {
	m, err := joinEtcd(url, time.Minute)
	if err != nil {
		return err
	}
	return m.close()
}

// received returns how many messages etcd has received.
func received(url string) (sum count, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return count{}, fmt.Errorf("etcd's metrics: %w", err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return count{}, fmt.Errorf("etcd's metrics: %w", err)
	}
	defer func() { err = errors.Join(err, reply.Body.Close()) }()
	for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "grpc_server_msg_received_total{") {
			continue
		}
		_, number, _ := strings.Cut(lines.Text(), "} ")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return count{}, fmt.Errorf("etcd's metrics: %w", err)
		}
		sum.requests += int64(n)
	}
	return sum, nil
}
