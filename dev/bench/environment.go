// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// describe prints what the figures depend on.
func describe(w io.Writer, server *redistest.Server) error {
	var text strings.Builder
	processor := redistest.Processor()
	if processor != "" {
		processor = ", " + processor
	}
	fmt.Fprintf(&text, "- %s, %s/%s, %d cores%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), processor)
	fmt.Fprintf(&text, "- %s on loopback, without persistence, on the same cores\n", serverVersion(server))
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "github.com/redis/rueidis", "github.com/redis/go-redis/v9",
				"github.com/go-redsync/redsync/v4", "github.com/bsm/redislock":
				fmt.Fprintf(&text, "- %s %s\n", m.Path, m.Version)
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func serverVersion(server *redistest.Server) string {
	reply, err := server.Do("INFO", "server")
	if err != nil {
		return "a server of unknown version"
	}
	version := "redis"
	for entry := range strings.Lines(fmt.Sprint(reply)) {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), ":")
		switch name {
		case "redis_version":
			version = "redis " + value
		case "valkey_version": // comes after the version it is compatible with
			return "valkey " + value
		}
	}
	return version
}
