// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"log"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

func ExampleNames() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithLabel("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	lease, err := reentrant.New(session, "order/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock()

	for entry, err := range inspect.Names(ctx, session, "order/") {
		if err != nil {
			log.Print(err) // the loop continues
			continue
		}
		fmt.Println(entry.Name, entry.Kind, entry.Holders[0].Label)
	}
	// Output: order/42 reentrant billing
}
