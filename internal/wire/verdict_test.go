// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

func TestEveryRefusalHasItsVerdictAndItsSentinel(t *testing.T) {
	t.Parallel()
	for words, c := range map[string]struct {
		verdict  wire.Verdict
		sentinel error
	}{
		"LOADING Redis is loading the dataset in memory":                                                           {wire.Wait, nil},
		"READONLY You can't write against a read only replica. script: 0a1b, on @user_script:30.":                  {wire.Wait, nil},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                         {wire.Wait, nil},
		"CLUSTERDOWN The cluster is down":                                                                          {wire.Wait, nil},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                  {wire.Wait, nil},
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                   {wire.Wait, nil},
		"NOREPLICAS Not enough good replicas to write.":                                                            {wire.Wait, nil},
		"MOVED 3999 127.0.0.1:6381":                                                                                {wire.Wait, nil},
		"ASK 3999 127.0.0.1:6381":                                                                                  {wire.Wait, nil},
		"ERR max number of clients reached":                                                                        {wire.Wait, nil},
		"OOM command not allowed when used memory > 'maxmemory'. script: 0a1b, on @user_script:30.":                {wire.Final, nil},
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":         {wire.Final, nil},
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 0a1b, on @user_script:30.":      {wire.Final, errs.ErrWrongKind},
		"NOPERM User limited has no permissions to run the 'evalsha' command":                                      {wire.Final, errs.ErrDenied},
		"NOAUTH Authentication required.":                                                                          {wire.Final, errs.ErrDenied},
		"WRONGPASS invalid username-password pair or user is disabled.":                                            {wire.Final, errs.ErrDenied},
		"ERR unknown command 'EVALSHA', with args beginning with: ":                                                {wire.Final, errs.ErrDenied},
		"ERR The user executing the script can't run this command or subcommand script: 0a1b, on @user_script:12.": {wire.Final, errs.ErrDenied},
		"ERR ACL failure in script: User limited has no permissions to run the 'set' command":                      {wire.Final, errs.ErrDenied},
		"ERR user_script:1: attempt to compare nil with number script: 0a1b, on @user_script:1.":                   {wire.Final, nil},
		"NOSCRIPT No matching script. Please use EVAL.":                                                            {wire.Final, nil},
		"something that no server says today":                                                                      {wire.Final, nil},
	} {
		err := wiretest.Outcome(wiretest.Refusal(words)).Err
		require.Equal(t, c.verdict, wire.Judge(err), words)
		require.ErrorContains(t, err, words[len("ERR "):], "the server's words are lost")
		for _, sentinel := range []error{errs.ErrWrongKind, errs.ErrDenied, errs.ErrClosed} {
			require.Equal(t, errors.Is(c.sentinel, sentinel), errors.Is(err, sentinel), words)
		}
		require.Equal(t, c.verdict, wire.Judge(fmt.Errorf("of a key: %w", err)), "wrapped: %s", words)
	}
}

func TestEveryFailureHasItsVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want wire.Verdict
	}{
		"Refused":        {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, wire.Wait},
		"NoSuchHost":     {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}, wire.Wait},
		"Reset":          {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, wire.Unknown},
		"BrokenPipe":     {&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, wire.Unknown},
		"End":            {io.EOF, wire.Unknown},
		"TimeOut":        {os.ErrDeadlineExceeded, wire.Unknown},
		"Cancelled":      {context.Canceled, wire.Unknown},
		"ContextTimeOut": {context.DeadlineExceeded, wire.Unknown},
		"NotSent":        {fmt.Errorf("%w: %w", wire.ErrNotSent, context.Canceled), wire.Final},
		"Closed":         {errs.ErrClosed, wire.Final},
		"Nothing":        {nil, wire.Unknown},
	} {
		require.Equal(t, c.want, wire.Judge(c.err), name)
		require.Equal(t, c.want, wire.Judge(fmt.Errorf("lock: %w", errors.Join(c.err, errs.ErrHeld))), name)
	}
}

func TestAClosedClientIsTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	_, err := wire.NewReply(rueidis.NewErrorResult(rueidis.ErrClosing))
	require.ErrorIs(t, err, errs.ErrClosed)
	require.Equal(t, wire.Final, wire.Judge(err))
}
