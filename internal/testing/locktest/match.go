// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"strings"
	"sync"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// RunsScript matches the requests that run one of the scripts, by digest or by text.
func RunsScript(these ...*scripts.Script) redistest.Match {
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

// scriptsByText has every script by its digest and by its text. To compose them all takes longer than most requests.
//
//nolint:gochecknoglobals // made once, and only read
var scriptsByText = sync.OnceValue(func() map[string]*scripts.Script {
	all, err := scripts.All()
	if err != nil {
		panic(err) // they are embedded
	}
	byText := make(map[string]*scripts.Script)
	for _, s := range all {
		byText[s.SHA1], byText[s.Source] = s, s
	}
	return byText
})

// Script returns the script that a request runs, nil if it runs none.
func Script(req []string) *scripts.Script {
	if len(req) < 2 || !strings.EqualFold(req[0], "EVALSHA") && !strings.EqualFold(req[0], "EVAL") {
		return nil
	}
	return scriptsByText()[req[1]]
}

// CommandName returns which script a request runs, or else its command.
func CommandName(req []string) string {
	if s := Script(req); s != nil {
		return s.Name
	}
	return strings.ToUpper(req[0])
}
