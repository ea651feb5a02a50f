// SPDX-License-Identifier: Apache-2.0

package election

import (
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/watch"
)

// electionRegistry holds the state of one session for elections: the observed ones, the terms, and the writes of values.
type electionRegistry struct {
	watch.Registry

	session *session.Session
	writes  *timers.Collector[*term]

	terms struct {
		sync.Mutex
		byKey map[string]map[*term]struct{} // the terms that were not resigned, by the key of the holder
	}
}

func registryOf(s *session.Session) *electionRegistry {
	return session.RegistryOf(s, "election", func() *electionRegistry {
		r := &electionRegistry{session: s}
		r.Init(s.Timers, s.Dispatch, s.Runner)
		r.writes = timers.NewCollector(s.Timers, r.writeAll)
		r.terms.byKey = make(map[string]map[*term]struct{})
		return r
	})
}

// addTerm remembers a term until it is resigned.
func (r *electionRegistry) addTerm(t *term) {
	key := t.election.keys.holder
	r.terms.Lock()
	defer r.terms.Unlock()
	if r.terms.byKey[key] == nil {
		r.terms.byKey[key] = make(map[*term]struct{})
	}
	r.terms.byKey[key][t] = struct{}{}
}

// removeTerm forgets a term.
func (r *electionRegistry) removeTerm(t *term) {
	key := t.election.keys.holder
	r.terms.Lock()
	defer r.terms.Unlock()
	delete(r.terms.byKey[key], t)
	if len(r.terms.byKey[key]) == 0 {
		delete(r.terms.byKey, key)
	}
}

// termsOf returns the terms of an election that were not resigned, whichever Election of the session began them.
func (r *electionRegistry) termsOf(key string) []*term {
	r.terms.Lock()
	defer r.terms.Unlock()
	return slices.Collect(maps.Keys(r.terms.byKey[key]))
}

// join adds an observer, and returns the number of the first poll that is sent after this call.
func (r *electionRegistry) join(k electionKeys) (w *watchedElection, from uint64, err error) {
	w, err = watch.Join(&r.Registry, k.holder, watch.Channel{Name: k.changed, Types: dispatch.ShardedChannel}, func() *watchedElection {
		return &watchedElection{keys: k, latest: watch.NewLatest[Leader](silence)}
	}, func(w *watchedElection) (poll bool) {
		from = w.subject.NextPollLocked()
		return true
	})
	return w, from, err
}

// Close implements session.KindRegistry.
func (r *electionRegistry) Close() {
	r.Registry.Close()
	r.writes.Close()
}
