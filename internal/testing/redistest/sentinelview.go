// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// elected returns the data server that all sentinels name, or nil. A sentinel that does not reply counts against it: it may
// not know of a failover yet, and makes the promoted server a replica of its former primary as soon as that is up again.
func (s *Sentinel) elected() *Server {
	names := make(chan string, sentinels)
	all(s.watch, func(w *Server) bool {
		names <- w.named()
		return true
	})
	close(names)
	count := make(map[string]int)
	for addr := range names {
		count[addr]++
	}
	for _, d := range s.data {
		if count[d.Addr()] == sentinels {
			return d
		}
	}
	return nil
}

// named returns the address that a sentinel has for the primary, "" if it does not reply.
func (s *Server) named() string {
	reply, err := s.at().do(viewLimit, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet)
	if pair, ok := reply.([]any); err == nil && ok && len(pair) == 2 {
		return fmt.Sprintf("%v:%v", pair[0], pair[1])
	}
	return ""
}

// ready reports whether the next failover could happen and no sentinel has anything left to correct. A
// sentinel that sees a server which is not yet the replica it should be makes it one, and cuts all its
// connections.
func (s *Sentinel) ready() bool {
	primary := s.elected()
	if primary == nil || !primary.isPrimary() {
		return false
	}
	want := fmt.Sprintf("status=ok,address=%s,slaves=1,sentinels=%d", primary.Addr(), sentinels)
	return all(s.watch, func(w *Server) bool { return strings.HasSuffix(w.watched(), want) && w.seesReplica(primary) }) &&
		all(s.data, func(d *Server) bool { return d == primary || d.linked() })
}

// watched returns what a sentinel says of the primary.
func (s *Server) watched() string {
	info, err := s.at().info(viewLimit, "sentinel")
	if err != nil {
		return err.Error()
	}
	return info["master0"]
}

// seesReplica reports whether a sentinel knows a replica of the primary to which all is well.
func (s *Server) seesReplica(of *Server) bool {
	reply, err := s.at().do(viewLimit, "SENTINEL", "REPLICAS", MasterSet)
	list, _ := reply.([]any)
	if err != nil || len(list) != 1 {
		return false
	}
	seen := fieldsOf(list[0])
	return seen["flags"] == "slave" && seen["role-reported"] == "slave" && seen["master-link-status"] == "ok" &&
		seen["master-port"] == strconv.Itoa(of.port)
}

// isCalm reports whether a sentinel knows of nothing wrong with the primary, and runs no failover.
func (s *Server) isCalm() bool {
	reply, err := s.at().do(viewLimit, "SENTINEL", "MASTER", MasterSet)
	return err == nil && fieldsOf(reply)["flags"] == "master"
}

// fieldsOf returns the fields that a sentinel lists of a server.
func fieldsOf(reply any) map[any]any {
	list, _ := reply.([]any)
	fields := make(map[any]any)
	for i := 0; i+1 < len(list); i += 2 {
		fields[list[i]] = list[i+1]
	}
	return fields
}

func (s *Sentinel) describe() string {
	var text strings.Builder
	for _, w := range s.watch {
		fmt.Fprintf(&text, "sentinel %s: %s\n", w.Addr(), w.watched())
	}
	for _, d := range s.data {
		info, err := d.at().info(viewLimit, "replication")
		fmt.Fprintf(&text, "server %s: role %s, link %s (%v)\n", d.Addr(), info["role"], info["master_link_status"], err)
	}
	return text.String()
}
