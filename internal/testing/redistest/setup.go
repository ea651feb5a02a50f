// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strconv"
	"time"
)

// setup is what a server is started as.
type setup struct {
	bus   bool     // the server speaks to the other nodes of a cluster, on a port of its own
	first []string // words that come before all options
	args  []string // come last, so they win
	files []file   // the files in the server's folder when it starts
	keeps string   // the one that it rewrites, and finds again after a Restart
	tls   *tlsSetup
	ahead time.Duration // the advance of the server's wall clock
	steps *Clock        // the clock that the test sets, or nil
}

// line is the command line of a server without persistence. DEBUG is enabled because DEBUG SLEEP
// is the simplest way to a server that is busy; before Redis 7.0 it always is. The server replies BUSY to no client, however long a
// script takes: on a loaded machine a script can take longer than the usual five seconds.
func (s *setup) line(binary string, port, bus int) []string {
	line := append([]string(nil), s.first...)
	line = append(line,
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--daemonize", "no",
		"--lua-time-limit", "0", // what newer servers call busy-reply-threshold
	)
	if !isOld(binary) {
		line = append(line, "--enable-debug-command", "local")
	}
	if s.tls == nil {
		line = append(line, "--port", strconv.Itoa(port))
	} else {
		line = append(line, "--port", "0", "--tls-port", strconv.Itoa(port))
		line = append(line, s.tls.args()...)
	}
	if bus != 0 && !isOld(binary) {
		line = append(line, "--cluster-port", strconv.Itoa(bus))
	}
	return append(line, s.args...)
}

// contents are the files of the next process; kept is what the last one left of the one it keeps.
func (s *setup) contents(kept string) []file {
	files := append([]file(nil), s.files...)
	if s.tls != nil {
		files = append(files, s.tls.files()...)
	}
	if kept == "" {
		return files
	}
	for i := range files {
		if files[i].name == s.keeps {
			files[i].text = kept
			return files
		}
	}
	return append(files, file{s.keeps, kept})
}

// milliseconds formats a duration for the command line of a server.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
