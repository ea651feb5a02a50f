// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Layout returns the layout, for signalbox.WithLayout.
func Layout() signalbox.Layout {
	return signalbox.Layout(session.NewLayoutHandle(&table, nil))
}

//nolint:gochecknoglobals // a constant table
var table = layout.Layout{
	Name:     "SET NX",
	Names:    makeNames,
	Hold:     layout.Native().Hold,
	Session:  sessionOf,
	Describe: describeScript,
	WaiterID: "0", // the message of every release
	Lock: &layout.ExclusiveTable{
		Table: layout.Table{
			RegistryName: "reentrant, SET NX",
			Keys: func(n names.Set) layout.Keys {
				return layout.Keys{All: []string{n.Holder}, Channel: n.More}
			},
			Renew: renewScript,
			Retry: &layout.Retry{
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
func makeNames(in names.NamingOptions, name string) (names.Set, error) {
	if err := names.Check(name); err != nil {
		return names.Set{}, err
	}
	channel := in.Prefix + "{" + names.Tag(name) + "}:unlocked"
	if in.Clustered && names.Tag(name) != names.Tag(channel) {
		return names.Set{}, fmt.Errorf("the channel of %q would be in another slot of the cluster: its braces must be a hash tag, or there must be no braces", name)
	}
	return names.NewSet(name, channel), nil
}

// holdCharacters are those of a hold in the library's own layout.
const holdCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// sessionOf returns the session of a hold of this library, and nothing for the values of other clients.
func sessionOf(hold string) string {
	if len(hold) != layout.HoldSize || strings.Trim(hold, holdCharacters) != "" {
		return ""
	}
	return layout.Native().Session(hold)
}
