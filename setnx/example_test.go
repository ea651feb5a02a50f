// SPDX-License-Identifier: Apache-2.0

package setnx_test

import (
	"context"
	"fmt"
	"log"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/setnx"
)

// A lock that another service takes by SET order/42 random NX PX 30000.
func ExampleLayout() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	lease, err := reentrant.New(session, "order/42", signalbox.WithLayout(setnx.Layout())).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Unlock())
	// Output: <nil>
}
