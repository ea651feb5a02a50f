// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"strings"

	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// Runs matches the requests that run one of the scripts, by digest or by text.
func Runs(these ...*scripts.Script) redistest.Match {
	return func(req []string) bool {
		if len(req) < 2 {
			return false
		}
		for _, s := range these {
			if strings.EqualFold(req[0], "EVALSHA") && req[1] == s.SHA1 || strings.EqualFold(req[0], "EVAL") && req[1] == s.Source {
				return true
			}
		}
		return false
	}
}

// Names returns which script a request runs, or else its command.
func Names(req []string) string {
	all, err := scripts.All()
	if err != nil {
		panic(err) // they are embedded
	}
	for _, s := range all {
		if Runs(s)(req) {
			return s.Name
		}
	}
	return strings.ToUpper(req[0])
}
