// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"cmp"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Keys are the keys that a name has at the server.
type Keys struct {
	Holds  []string // the keys of holders: of a lock, and of a semaphore in the library's own layout
	Queues []string // the keys of waiters
	Stored []string // the keys of a latch, and of the outcome of a once
}

// KeysOf returns the keys of a name in a session, in the layout of options or of the session's defaults, or why it is
// not a name.
func KeysOf(s *signalbox.Session, name string, options ...signalbox.LockOption) (Keys, error) {
	of := (*session.Handle)(s).Session()
	set := of.Settings.Lock
	session.Apply(&set, options)
	in := cmp.Or(set.Layout, proto.Native())
	all, err := of.Names(in, name)
	if err != nil {
		return Keys{}, err
	}
	if in != proto.Native() {
		return foreign(in, all), nil
	}
	keys := Keys{Stored: []string{all.Latch(), all.Outcome()}}
	for _, kind := range proto.All {
		if kind.Table != nil {
			its := kind.Table.Keys(kind.Table.Names(all)).All
			keys.Queues = append(keys.Queues, its[1:]...)
			if kind.Key != nil {
				keys.Holds = append(keys.Holds, its[0])
			}
		}
	}
	return keys, nil
}

// foreign returns the keys of a lock in a layout of other clients.
func foreign(in *proto.Layout, of proto.Set) Keys {
	keys := Keys{Holds: []string{of.Holder}}
	if in.Fair != nil {
		keys.Queues = in.Fair.Table.Keys(of).All[1:] // without the holder
	}
	return keys
}

// Epoch is the key that says since when a server has its data. A redlock gets no vote of a server that has had it for less
// than a lease.
type Epoch struct {
	Key, Value string
	Life       time.Duration
}

// EpochOf returns the epoch of a server of this session that has had its data for a week.
func EpochOf(s *signalbox.Session, now time.Time) Epoch {
	const week = 7 * 24 * time.Hour
	return Epoch{
		Key:   proto.Epoch((*session.Handle)(s).Session().Settings.Prefix),
		Value: fmt.Sprintf("sb1e%016d%016d", now.Add(-week).UnixMicro(), now.UnixMicro()),
		Life:  week,
	}
}

// Recheck makes the session ask the server whether its holds of these keys still exist, as the message of a ForceUnlock
// does. It does not wait for the reply.
func Recheck(s *signalbox.Session, keys Keys) {
	for _, key := range keys.Holds {
		(*session.Handle)(s).Session().Recheck(key)
	}
}
