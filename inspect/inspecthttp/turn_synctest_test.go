// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPagesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := served{New(nil, Options{}), t, nil, nil}
		for range maxPages {
			s.pages <- struct{}{}
		}
		begun := time.Now()
		w := s.get("/sessions")
		require.Equal(t, []any{http.StatusServiceUnavailable, pageTimeout, "5"}, []any{w.Code, time.Since(begun), w.Header().Get("Retry-After")})
		<-s.pages
		require.NotContains(t, s.get("/sessions").Body.String(), "too many")
		require.Len(t, s.pages, maxPages-1, "a page gives its turn back")
		time.Sleep(2 * keptFor) // nothing is left of the list
	})
}
