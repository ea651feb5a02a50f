// SPDX-License-Identifier: Apache-2.0

package session

import "log/slog"

// Logger returns the logger for warnings. By default, and for a session that neither Dial nor
// NewSession made, it discards them.
func (s *Session) Logger() *slog.Logger {
	if s == nil || s.Settings.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Settings.Logger
}

// warnOfEviction says once that the server may drop the keys of locks when its memory is full:
// limit is its maxmemory and policy its maxmemory-policy, both "" where they are not to be had.
// Every policy but one does, since keys of locks have a TTL.
func (s *Session) warnOfEviction(limit, policy string) {
	if limit == "" || limit == "0" || policy == "" || policy == "noeviction" || s.warned.Swap(true) {
		return
	}
	s.Logger().Warn("the server evicts keys when its memory is full, and a lock whose key is evicted is lost: "+
		"set maxmemory-policy to noeviction, or keep locks on a server of their own",
		"maxmemory", limit, "maxmemory-policy", policy)
}
