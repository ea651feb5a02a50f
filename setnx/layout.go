// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Layout returns the layout, for signalbox.WithLayout.
func Layout() signalbox.Layout {
	return signalbox.Layout(session.NewLayoutHandle(&table, nil))
}

//nolint:gochecknoglobals // a constant table
var table = proto.Layout{
	Name:     "SET NX",
	Names:    makeNames,
	Hold:     proto.Native().Hold,
	Session:  sessionOf,
	Describe: describeScript,
	WaiterID: "0", // the message of every release
	Lock: &proto.ExclusiveTable{
		Table: proto.Table{
			RegistryName: "reentrant, SET NX",
			Keys: func(n proto.Set) proto.Keys {
				return proto.Keys{All: []string{n.Holder}, Channel: n.More}
			},
			Renew: renewScript,
			Retry: &proto.Retry{
				Acquire: acquireScript, Release: releaseScript, Poll: pollScript, HandsOver: true, Silent: true,
			},
		},
		CompatibleKinds: "r",
		Force:           forceScript,
	},
	Reader: &reader,
}

// makeNames makes the unchanged name the key, without a prefix. The channel is for the sessions of this library alone, so
// it has their prefix. Two names may share a channel, as "a" and "{a}" do, which costs a needless try.
//
// In a cluster key and channel of a name must be in one slot: a name with a closing brace that ends no hash
// tag is refused.
func makeNames(in proto.NamingOptions, name string) (proto.Set, error) {
	if err := proto.Check(name); err != nil {
		return proto.Set{}, err
	}
	channel := in.Prefix + "{" + wire.Tag(name) + "}:unlocked"
	if in.Clustered && wire.Tag(name) != wire.Tag(channel) {
		return proto.Set{}, fmt.Errorf("the channel of %q would be in another slot of the cluster: its braces must be a hash tag, or there must be no braces", name)
	}
	return proto.NewSet(name, channel), nil
}

// holdCharacters are those of a hold in the library's own layout.
const holdCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// sessionOf returns the session of a hold of this library, and nothing for the values of other clients.
func sessionOf(hold string) string {
	if len(hold) != proto.HoldSize || strings.Trim(hold, holdCharacters) != "" {
		return ""
	}
	return proto.Native().Session(hold)
}

// reader reads the values of locks. Those of other clients are random: only those of this library differ from any other
// string. A name that the caller calls a lock is one, whichever client holds it.
//
//nolint:gochecknoglobals // a constant table
var reader = proto.Reader{
	Types: []string{proto.StringKey},
	ReadKey: func(i *proto.Inspection, _ string) {
		readValue(i, labelSize, func(h proto.Holder) bool { return h.Session != "" })
	},
	ReadName: func(i *proto.Inspection) { readValue(i, valueSize, func(proto.Holder) bool { return true }) },
}

// labelSize is how much of a value is shown, and valueSize how much is read of one that is a lock's. A longer one identifies no hold.
const labelSize, valueSize = 64, 512

// readValue queries what a string is, by its first bytes. It is a lock if isLock returns true for its holder.
func readValue(i *proto.Inspection, count int, isLock func(proto.Holder) bool) {
	i.Query(proto.ReadStringCall(i.Key, count), func(reply wire.Reply) {
		key := proto.ReadStringHead(&reply)
		value := key.Head
		holder := proto.Holder{Label: value[:min(labelSize, len(value))], Session: sessionOf(value), Until: key.Ends}
		if len(value) < count {
			holder.Hold = proto.HoldID(value)
		}
		if holder.Session != "" {
			holder.Label = holder.Session // the value is the hold's id, with which it can be released
		}
		if value != "" && isLock(holder) {
			i.Report(proto.Use{Kind: proto.Reentrant.Name, Holders: []proto.Holder{holder}})
		}
	})
}

// The scripts in use.
//
//nolint:gochecknoglobals // constants in all but name
var (
	acquireScript  = scripts.Load("setnx/acquire", 1)
	releaseScript  = scripts.Load("setnx/release", 1)
	pollScript     = scripts.Load("setnx/poll", 1)
	renewScript    = scripts.Load("setnx/renew", 1)
	describeScript = scripts.Load("setnx/describe", 1)
	forceScript    = scripts.Load("setnx/force", 1)
)
