// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"fmt"

	"github.com/signalbox-go/signalbox/scripts"
)

// valueKind is a lock that other clients write by SET with NX.
type valueKind struct{ javaKind }

func (k *valueKind) fresh(session string) *attempt {
	return &attempt{hold: fmt.Sprintf("%022s%019d", session[:1], k.made())}
}

func (k *valueKind) newcomer(session string) *attempt { return k.fresh(session) }

func (k *valueKind) verbs() []verb {
	return []verb{tries, tries, enters, polls, leaves, leaves, renews, renews, withdraws, forces}
}

func (k *valueKind) requestOf(v verb, a *attempt) *request {
	key, life := k.keys(), a.lease
	switch v {
	case tries, enters:
		return k.request(v, a, unstamped, scripts.Load("setnx/acquire", 1), key, a.hold, life/1000, k.notAfter(), "PUBLISH", k.channel(), "0").gives(life)
	case polls:
		return k.request(v, nil, nothing, scripts.Load("setnx/poll", 1), key, "")
	case leaves, withdraws:
		return k.request(v, a, nothing, scripts.Load("setnx/release", 1), key, a.hold, "PUBLISH", k.channel())
	case forces:
		return k.request(v, a, forced, scripts.Load("setnx/force", 1), key, a.hold, "PUBLISH", k.channel(), k.name+"told")
	}
	if v != renews || a.ended || a.issued == 0 {
		return nil
	}
	return k.request(v, a, lengthened, scripts.Load("setnx/renew", 1), key, a.hold, life/1000).gives(life)
}

func (k *valueKind) probes(a *attempt) []*request {
	return []*request{
		k.requestOf(tries, a), k.requestOf(polls, a), k.requestOf(leaves, a), k.requestOf(forces, a),
		k.request(renews, a, lengthened, scripts.Load("setnx/renew", 1), k.keys(), a.hold, 0),
		k.request(describes, nil, described, scripts.Load("setnx/describe", 1), k.keys()),
	}
}
