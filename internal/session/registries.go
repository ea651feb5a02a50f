// SPDX-License-Identifier: Apache-2.0

package session

import (
	"maps"
	"slices"
	"sync"
)

// KindRegistry has the locks of one kind in a session. Each kind makes its own.
type KindRegistry interface {
	// Refuse ends all waits with err, now and from now on.
	Refuse(err error)
	// Close ends the work under way, and waits for it. No call of the kind is made after it.
	Close()
}

// HoldRegistry is a KindRegistry whose locks are held. LocalHolds returns the holds of key, or all holds if key is "". With
// recheck, a hold that may have been granted, and has not begun, asks the server when it begins: it may be forced already.
type HoldRegistry interface {
	KindRegistry
	LocalHolds(key string, recheck bool) []LocalHold
}

// LocalHold is a hold in this process.
type LocalHold interface {
	// Evict ends the hold for cause.
	Evict(cause error)
	// Superseded ends the hold because the server has granted the lock to a newer hold.
	Superseded()
	// Recheck asks the server whether the hold still exists, and does not wait for the reply.
	Recheck()
}

// RecallRegistry is a KindRegistry whose holds may be recalled, or want to learn that another session waits: the message is the same.
type RecallRegistry interface {
	// Recall is called with the id of an attempt, within the session, whose lock another session wants.
	Recall(attempt string)
	// RecallAll is called when recalls no longer arrive.
	RecallAll()
	// Resubscribed is called when recalls arrive again, after a time in which some may have been lost.
	Resubscribed()
}

// IdleRegistry is a KindRegistry that keeps holds while no goroutine uses them.
type IdleRegistry interface {
	IdleLocks() int // counts them
}

// RecalledHold is a LocalHold that may be kept while no goroutine uses it.
type RecalledHold interface {
	LocalHold
	// OnRecall ends the hold if no goroutine uses it, and lets it be kept no more: another session wants the lock, or may do so
	// without this one learning of it. It is called without a lock, perhaps more than once, and must not block.
	OnRecall()
}

// registries are those of a session, by their names. Its lock is taken before that of the session.
type registries struct {
	mu     sync.Mutex
	byName map[string]KindRegistry
}

// RegistryOf returns the registry of s with that name. The first call makes it by create.
func RegistryOf[R KindRegistry](s *Session, name string, create func() R) R {
	g := &s.registries
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.byName[name]
	if r == nil {
		if g.byName == nil {
			g.byName = make(map[string]KindRegistry)
		}
		r = create()
		g.byName[name] = r
		s.Forces.addAlias(r)
	}
	return r.(R) //nolint:errcheck,forcetypeassert // a name has one create
}

// all returns every registry. One that is made later finds the session closing.
func (g *registries) all() []KindRegistry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.byName))
}

// registriesOf returns the registries that are an R.
func registriesOf[R any](g *registries) (found []R) {
	for _, p := range g.all() {
		if r, is := p.(R); is {
			found = append(found, r)
		}
	}
	return found
}

// localHolds returns the holds of the session; see HoldRegistry.
func (g *registries) localHolds(key string, recheck bool) (holds []LocalHold) {
	for _, r := range registriesOf[HoldRegistry](g) {
		holds = append(holds, r.LocalHolds(key, recheck)...)
	}
	return holds
}

// IdleLocks returns how many holds no goroutine uses. s may be no session.
func (s *Session) IdleLocks() (n int) {
	if s == nil {
		return 0
	}
	for _, r := range registriesOf[IdleRegistry](&s.registries) {
		n += r.IdleLocks()
	}
	return n
}
