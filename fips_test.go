// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"crypto/fips140"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// addressVariable is the environment variable with the server's address for a child.
const addressVariable = "SIGNALBOX_TEST_ADDRESS"

const noFIPS = "this toolchain has no FIPS 140-3 mode here"

// runFIPS is a process that takes a lock and releases it, and then prints "done" or what went
// wrong.
func runFIPS(_ io.Reader, stdout io.Writer) {
	if !fips140.Enabled() {
		fmt.Fprintln(stdout, noFIPS)
		return
	}
	o := rueidis.ClientOption{InitAddress: []string{os.Getenv(addressVariable)}}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	defer client.Close()
	s := signalbox.NewSession(client)
	lease, err := reentrant.New(s, "fips").Lock(context.Background())
	if err == nil {
		err = lease.Unlock()
	}
	if err == nil {
		err = s.Close(context.Background())
	}
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	fmt.Fprintln(stdout, "done")
}

// Under fips140=only a program that computes a SHA-1 panics, also before main.
func TestLocksWorkUnderFIPS140Only(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	child := redistest.Child(t, "fips", addressVariable+"="+server.Addr(), "GODEBUG=fips140=only")
	line, err := child.ReadLine(redistest.WaitLimit)
	require.NoError(t, err)
	if line == noFIPS {
		t.Skip(line)
	}
	require.Equal(t, "done", line)
}
