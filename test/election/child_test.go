// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// limit is how long a test waits for processes. Only a broken promise takes that long.
const limit = time.Minute

// lease is that of leaders which are killed or stopped.
const lease = 2 * time.Second

const urlEnv, valueEnv = "URL", "VALUE"

// child runs a process that campaigns for the election "a".
func child(t *testing.T, server *redistest.Server, value string) *redistest.Process {
	t.Helper()
	return redistest.Child(t, "leader", urlEnv+"="+server.URL(), valueEnv+"="+value)
}

// line reads the child's next line.
func line(t *testing.T, p *redistest.Process) string {
	t.Helper()
	text, err := p.ReadLine(limit)
	require.NoError(t, err, p.Stderr())
	return text
}

// runLeader leads whenever it can. It says "leads" for each term, and "over" when that has ended. For each line that it reads
// it says whether its term lasts.
func runLeader(stdin io.Reader, stdout io.Writer) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv))
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	e := election.New(s, "a", signalbox.WithRenewedLease(lease), election.Value(os.Getenv(valueEnv)))
	requested := make(chan string)
	go func() {
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			requested <- lines.Text()
		}
		cancel()
	}()
	_ = e.Run(ctx, func(ctx context.Context, term election.Term) error {
		fmt.Fprintln(stdout, "leads")
		for {
			select {
			case <-requested:
				fmt.Fprintln(stdout, term.Err() == nil)
			case <-ctx.Done():
				fmt.Fprintln(stdout, "over")
				return nil
			}
		}
	})
	must(s.Close(context.Background()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
