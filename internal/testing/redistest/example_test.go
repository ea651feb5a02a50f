// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A script is executed, but its reply never arrives. In a test the first lines would be
// redistest.Start(t), redistest.NewProxy(t, server.Addr()) and proxy.Client(t, nil).
func Example() {
	server, err := redistest.StartServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	proxy, err := redistest.StartProxy(server.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	fault := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest, At: 1})
	script := client.B().Eval().Script("return redis.call('INCR', KEYS[1])").Numkeys(1).Key("n").Build()
	fmt.Println("the client sees:", client.Do(context.Background(), script).Error())
	<-fault.Fired()
	n, err := server.Do("GET", "n")
	fmt.Println("the server has:", n, err)
	// Output:
	// the client sees: EOF
	// the server has: 1 <nil>
}
