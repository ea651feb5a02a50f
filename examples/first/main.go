// SPDX-License-Identifier: Apache-2.0

// Command first is a whole program that holds one lock. The README shows it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() {
	if err := run(os.Getenv("SIGNALBOX_REDIS")); err != nil { // redis://127.0.0.1:6379
		log.Fatal(err)
	}
}

func run(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	session, err := signalbox.Dial(ctx, url) // once in a process
	if err != nil {
		return err
	}
	defer session.Close(context.Background()) // not ctx: it may have ended by then

	lease, err := reentrant.New(session, "report").Lock(ctx) // waits in the queue until ctx ends; the lease continues
	if err != nil {
		return err
	}
	defer lease.Unlock()
	fmt.Println("the only report at this time")
	return nil
}
