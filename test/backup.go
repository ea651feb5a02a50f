// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Backup is all keys of an embedded server, as of one moment.
type Backup map[string]BackupKey

// BackupKey is one key, with the value of its type.
type BackupKey struct {
	Text    string
	Fields  map[string]string
	Members map[string]float64
	List    []string
	Life    time.Duration // 0 if it does not end
}

// BackupOf returns all keys of a server, without those that end meanwhile. It panics if one has another type, which no script makes.
func BackupOf(m *miniredis.Miniredis) Backup {
	all := make(Backup)
	for _, key := range m.Keys() {
		one := BackupKey{Life: m.TTL(key)}
		var err error
		switch kind := m.Type(key); kind {
		case "string":
			one.Text, err = m.Get(key)
		case "hash":
			one.Fields = make(map[string]string)
			var fields []string
			fields, err = m.HKeys(key)
			for _, field := range fields {
				one.Fields[field] = m.HGet(key, field)
			}
		case "zset":
			one.Members, err = m.SortedSet(key) // which the server uses further
			one.Members = maps.Clone(one.Members)
		case "list":
			one.List, err = m.List(key) // the same
			one.List = slices.Clone(one.List)
		case "":
			err = miniredis.ErrKeyNotFound
		default:
			err = fmt.Errorf("%s has the type %s", key, kind)
		}
		if errors.Is(err, miniredis.ErrKeyNotFound) {
			continue
		}
		must(err)
		all[key] = one
	}
	return all
}

// Restore gives a server these keys, with the lives that they had, and no others.
func (b Backup) Restore(m *miniredis.Miniredis) {
	m.FlushAll()
	for key, one := range b {
		one.Restore(m, key)
	}
}

// Restore gives a server the key as it was, whatever it has there.
func (k BackupKey) Restore(m *miniredis.Miniredis, key string) {
	m.Del(key)
	for field, value := range k.Fields {
		m.HSet(key, field, value)
	}
	for member, score := range k.Members {
		_, err := m.ZAdd(key, score, member)
		must(err)
	}
	if k.List != nil {
		_, err := m.Push(key, k.List...)
		must(err)
	}
	if k.Fields == nil && k.Members == nil && k.List == nil {
		must(m.Set(key, k.Text))
	}
	if k.Life > 0 {
		m.SetTTL(key, k.Life)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
