// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/scripts"
)

// Do sends one command over a plain connection of its own, so it works whatever state
// the client under test is in. Arguments are sent as fmt prints them. The reply is a
// string, an int64, nil, or a []any of these; an error reply is a ReplyError. If
// the server is silent for Patience, Do returns an error, so that a test of a frozen server fails instead
// of hanging.
func (s *Server) Do(args ...any) (any, error) {
	return s.at().do(Patience, args...)
}

// MustDo is Do that fails the test if there is an error.
func (s *Server) MustDo(tb testing.TB, args ...any) any {
	tb.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		tb.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Keys returns the keys that match a pattern, sorted.
func (s *Server) Keys(pattern string) []string {
	reply, err := s.Do("KEYS", pattern)
	if err != nil {
		s.report.failf("redistest: keys: %v", err)
	}
	list, _ := reply.([]any) // anything else would have been an error
	keys := make([]string, len(list))
	for i, k := range list {
		keys[i] = fmt.Sprint(k)
	}
	slices.Sort(keys)
	return keys
}

// Refused returns how many requests the server has refused by an error that begins with a word, such as OOM, since it was started or
// its statistics were reset.
func (s *Server) Refused(tb testing.TB, word string) int {
	tb.Helper()
	n, _ := strconv.Atoi(strings.TrimPrefix(s.info("errorstats")["errorstat_"+word], "count="))
	return n
}

// Ahead returns how far the server's clock is ahead of this machine's.
func (s *Server) Ahead(tb testing.TB) time.Duration {
	tb.Helper()
	reply, _ := s.MustDo(tb, "TIME").([]any)
	seconds := s.integer(fmt.Sprint(reply[0]))
	return time.Until(time.Unix(seconds, 0))
}

// CommandStat says how often a command ran and how long it took in all.
type CommandStat struct {
	Calls int64
	Time  time.Duration
}

// CommandStats returns the statistics of each command by lower-case name ("evalsha",
// "config|get"), since the start or the last CONFIG RESETSTAT. Commands that a script
// calls count as well, and so do those of Do.
func (s *Server) CommandStats() map[string]CommandStat {
	stats := make(map[string]CommandStat)
	for key, fields := range s.info("commandstats") {
		name, ok := strings.CutPrefix(key, "cmdstat_")
		if !ok {
			continue
		}
		var stat CommandStat
		for field := range strings.SplitSeq(fields, ",") {
			switch name, number, _ := strings.Cut(field, "="); name {
			case "calls":
				stat.Calls = s.integer(number)
			case "usec":
				stat.Time = time.Duration(s.integer(number)) * time.Microsecond
			}
		}
		stats[name] = stat
	}
	return stats
}

// CPU returns the processor time that the server process has used, user and system.
func (s *Server) CPU() time.Duration {
	info := s.info("cpu")
	var sum time.Duration
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			s.report.failf("redistest: %s: %v", field, err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum
}

// Client returns a client of the server that is closed when the test ends. mod, if not nil,
// changes its options, of which only the address is set, and the TLS settings if the server
// speaks TLS.
func (s *Server) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{InitAddress: []string{s.Addr()}, TLSConfig: s.TLSConfig()}, mod)
}

func newClient(tb testing.TB, opt rueidis.ClientOption, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	if mod != nil {
		mod(&opt)
	}
	var c rueidis.Client
	var err error
	// The client waits for a connection for a second or two, and a machine may be suspended for as long. A
	// reply of the server is final.
	PollUntil(startLimit, func() bool {
		c, err = rueidis.NewClient(opt)
		_, replied := rueidis.IsRedisErr(err)
		return err == nil || replied
	})
	if err != nil {
		tb.Fatalf("redistest: client of %v: %v", opt.InitAddress, err)
	}
	tb.Cleanup(c.Close)
	return c
}

// infoSections are the fields of an INFO reply.
type infoSections map[string]string

func (s *Server) info(section string) infoSections {
	info, err := s.at().info(Patience, section)
	if err != nil {
		s.report.failf("redistest: info %s: %v", section, err)
	}
	return info
}

func (t target) info(limit time.Duration, section string) (infoSections, error) {
	reply, err := t.do(limit, "INFO", section)
	if err != nil {
		return nil, err
	}
	return parseInfo(fmt.Sprint(reply)), nil
}

func parseInfo(text string) infoSections {
	info := make(infoSections)
	for line := range strings.SplitSeq(text, "\r\n") {
		if field, text, ok := strings.Cut(line, ":"); ok {
			info[field] = text
		}
	}
	return info
}

func (s *Server) integer(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.report.failf("redistest: number in an INFO reply: %v", err)
	}
	return n
}

// SentBy returns how often each command ran while do did, those that scripts call included. Left out are those by which
// it finds out, and the pings of clients that wait.
func (s *Server) SentBy(do func()) map[string]int64 {
	before := s.CommandStats()
	do()
	sent := make(map[string]int64)
	for command, stat := range s.CommandStats() {
		if n := stat.Calls - before[command].Calls; n > 0 && command != "info" && command != "ping" {
			sent[command] = n
		}
	}
	return sent
}

// commandRunner runs commands on a server; *Server is one.
type commandRunner interface {
	MustDo(tb testing.TB, args ...any) any
}

// LoadScripts makes every script known to the server, so that each call of one is one request.
func LoadScripts(tb testing.TB, server commandRunner) {
	tb.Helper()
	all, err := scripts.All()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range all {
		server.MustDo(tb, "SCRIPT", "LOAD", s.Source)
	}
}
