// SPDX-License-Identifier: Apache-2.0

package inspecthttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/inspect/inspecthttp"
)

// requireOperator stands for what the service has to know its users.
func requireOperator(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, _, _ := r.BasicAuth(); name != "operator" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// The service says who may read, and who may break a name.
func Example() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		panic(err)
	}
	defer session.Close(ctx)

	pages := inspecthttp.New(session, inspecthttp.Options{
		AuthorizeBreak: func(r *http.Request, seen inspect.Entry) error {
			return errors.New("ask an administrator to break " + seen.Name)
		},
	})
	mux := http.NewServeMux()
	mux.Handle("/locks/", requireOperator(http.StripPrefix("/locks", pages)))

	for _, user := range []string{"guest", "operator"} {
		request := httptest.NewRequest(http.MethodGet, "/locks/", nil)
		request.SetBasicAuth(user, "")
		reply := httptest.NewRecorder()
		mux.ServeHTTP(reply, request)
		fmt.Println(user, reply.Code)
	}
	// Output:
	// guest 401
	// operator 200
}
