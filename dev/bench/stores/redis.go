// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// redis is Redis, or what is like it.
func redis(name, binary, form string) store {
	kept := survival{"freed after its lease", "lost", "may be granted twice"}
	var args []string
	if form == durable {
		kept.server = "kept"
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	all := []client{signalboxClient(), rueidislockClient(), redsyncClient(), redislockClient()}
	return store{name, form, kept, func() (*server, error) { return startRedis(binary, args) }, all}
}

func startRedis(binary string, args []string) (*server, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, err
	}
	version, err := versionOf(path)
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(redistest.ServerEnv, path); err != nil {
		return nil, err
	}
	defer func() { _ = os.Unsetenv(redistest.ServerEnv) }()
	s, err := redistest.StartServer(redistest.WithArgs(args...))
	if err != nil {
		return nil, err
	}
	return &server{version, s.Addr(), s.Close}, nil
}
