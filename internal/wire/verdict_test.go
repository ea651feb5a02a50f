// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

func TestEveryRefusalHasItsVerdictAndItsSentinel(t *testing.T) {
	t.Parallel()
	for words, c := range map[string]struct {
		verdict  wire.Verdict
		sentinel error
	}{
		"LOADING Redis is loading the dataset in memory":                                                                               {wire.Temporary, errs.ErrRefused},
		"READONLY You can't write against a read only replica. script: 0a1b, on @user_script:30.":                                      {wire.Temporary, errs.ErrRefused},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                             {wire.Temporary, errs.ErrRefused},
		"CLUSTERDOWN The cluster is down":                                                                                              {wire.Temporary, errs.ErrRefused},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                      {wire.Temporary, errs.ErrRefused},
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                                       {wire.Temporary, errs.ErrRefused},
		"NOREPLICAS Not enough good replicas to write.":                                                                                {wire.Temporary, errs.ErrRefused},
		"ERR Script attempted to access a non local key in a cluster node script: 0a1b, on @user_script:60.":                           {wire.Unknown, errs.ErrRefused},
		"MOVED 3999 127.0.0.1:6381":                                                                                                    {wire.Temporary, errs.ErrRefused},
		"ASK 3999 127.0.0.1:6381":                                                                                                      {wire.Temporary, errs.ErrRefused},
		"ERR max number of clients reached":                                                                                            {wire.Temporary, errs.ErrRefused},
		"OOM command not allowed when used memory > 'maxmemory'. script: 0a1b, on @user_script:30.":                                    {wire.Temporary, errs.ErrRefused},
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                             {wire.Temporary, errs.ErrRefused},
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 0a1b, on @user_script:30.":                          {wire.Final, errs.ErrWrongKind},
		"NOPERM User limited has no permissions to run the 'evalsha' command":                                                          {wire.Final, errs.ErrDenied},
		"NOAUTH Authentication required.":                                                                                              {wire.Final, errs.ErrDenied},
		"WRONGPASS invalid username-password pair or user is disabled.":                                                                {wire.Final, errs.ErrDenied},
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?": {wire.Final, errs.ErrDenied},
		"ERR Client sent AUTH, but no password is set":                                                                                 {wire.Final, errs.ErrDenied},
		"ERR unknown command 'EVALSHA'":                                                                                                {wire.Final, errs.ErrDenied},
		"DENIED Redis is running in protected mode because protected mode is enabled":                                                  {wire.Final, errs.ErrDenied},
		"ERR The user executing the script can't run this command or subcommand script: 0a1b, on @user_script:12.":                     {wire.Final, errs.ErrDenied},
		"ERR ACL failure in script: User limited has no permissions to run the 'set' command":                                          {wire.Final, errs.ErrDenied},
		"ERR Unknown Redis command called from script script: 0a1b, on @user_script:79.":                                               {wire.Final, errs.ErrDenied},
		"ERR Script killed by user with SCRIPT KILL... script: 0a1b, on @user_script:1.":                                               {wire.Temporary, errs.ErrRefused},
		"NOSCRIPT No matching script. Please use EVAL.":                                                                                {wire.Temporary, errs.ErrRefused},
		"CROSSSLOT Keys in request don't hash to the same slot":                                                                        {wire.Final, errs.ErrUnsupported},
		"ERR unsupported command 'EVALSHA'":                                                                                            {wire.Final, errs.ErrDenied},
		"ERR invalid password":                                                                                                         {wire.Final, errs.ErrDenied},
		"ERR unknown command `EVALSHA`":                                                                                                {wire.Final, errs.ErrDenied},
	} {
		err := redistest.Outcome(redistest.Refusal(words)).Err
		require.Equal(t, c.verdict, wire.Judge(err), words)
		require.ErrorContains(t, err, strings.TrimPrefix(words, "ERR "), "the server's words are lost")
		for _, sentinel := range []error{errs.ErrWrongKind, errs.ErrRefused, errs.ErrDenied, errs.ErrUnsupported, errs.ErrClosed} {
			require.Equal(t, errors.Is(c.sentinel, sentinel), errors.Is(err, sentinel), words)
		}
		require.Equal(t, c.verdict, wire.Judge(fmt.Errorf("of a key: %w", err)), "wrapped: %s", words)
	}
}

// P5: words that are no server's of ours say nothing about the script. It may have been executed.
func TestUnlistedWordsAreAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"something that no server says today",
		"upstream failure",
		"ERR upstream failure",
		"no healthy upstream",
		"max requests limit exceeded",
		"ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.",
		"NEWCODE a state of the server, in a script script: 0a1b, on @user_script:2.",
		"ERR attempt to compare number with nil",
		"Busy: the reply was lost",
		"moved permanently",
		"BUSYGROUP Consumer Group name already exists",
		"READONLYISH",
		"loading balancer has no reply",
		"oom",
	} {
		err := redistest.Outcome(redistest.Refusal(words)).Err
		require.Equal(t, wire.Unknown, wire.Judge(err), words)
		require.True(t, wire.MayHaveRun(err), words)
	}
	require.Equal(t, wire.Unknown, wire.Judge(fmt.Errorf("%w: it has three elements", wire.ErrUnreadable)))
}

// P10: an error that a script of ours raises, or a request that this server never takes, is not waited for. Only an error after the first
// write of a script has to be undone. These are the words of Redis 7.0.15; atLine4 is how Redis 6.2 begins.
func TestWhatCanNeverSucceedIsFinal(t *testing.T) {
	t.Parallel()
	const at = " script: 0a1bf999d9ca95013e0098924902c62b4aea59c5, on @user_script:5."
	for words, mayHaveRun := range map[string]bool{
		"ERR user_script:5: bad argument" + at:  false,
		atLine4 + "user_script:4: bad argument": false,
		"ERR bad argument" + at:                 false,
		"ERR Error compiling script (new function): user_script:1: '<eof>' expected near 'b'": false,
		"ERR wrong number of arguments for 'evalsha' command":                                 false,
		"ERR Number of keys can't be greater than number of args":                             false,
		"ERR Protocol error: invalid bulk length":                                             false,
		"ERR DB index is out of range":                                                        false,
		"ERR SELECT is not allowed in cluster mode":                                           false,
		"ERR user_script:5: attempt to perform arithmetic on a nil value" + at:                true,
		"ERR user_script:5: Script attempted to access nonexistent global variable 'x'" + at:  true,
		"ERR user_script:5: stack overflow" + at:                                              true,
		"ERR user_script:5: too many results to unpack" + at:                                  true,
		atLine4 + "user_script:4: attempt to compare number with nil":                         true,
		"ERR Wrong number of args calling Redis command from script" + at:                     true,
		"ERR This Redis command is not allowed from script" + at:                              true,
		"ERR Write commands are not allowed from read-only scripts." + at:                     true,
		"ERR invalid expire time in 'pexpire' command" + at:                                   true,
		"ERR string exceeds maximum allowed size (proto-max-bulk-len)" + at:                   true,
		"ERR syntax error" + at:                                                               true,
		"ERR timeout is negative" + at:                                                        true,
		"ERR Script attempted to access keys that do not hash to the same slot" + at:          true,
		atLine4 + "-ERR min or max is not a float":                                            true,
	} {
		err := redistest.Outcome(redistest.Refusal(words)).Err
		require.Equal(t, wire.Final, wire.Judge(err), words)
		require.ErrorIs(t, err, errs.ErrUnsupported, words)
		require.Equal(t, mayHaveRun, wire.MayHaveRun(err), words)
		require.True(t, wire.EndsUndo(err), words)
	}
}

// A proxy that repeats a server's words may change how they are written.
func TestAProxysCopyOfAServersWordsHasTheirVerdict(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]struct {
		verdict  wire.Verdict
		sentinel error
	}{
		"ERR READONLY You can't write against a read only replica.": {wire.Temporary, errs.ErrRefused},
		"readonly You can't write against a read only replica.":     {wire.Temporary, errs.ErrRefused},
		"err ReadOnly":                            {wire.Temporary, errs.ErrRefused},
		"-READONLY x":                             {wire.Temporary, errs.ErrRefused},
		"ERR LOADING Redis is loading":            {wire.Temporary, errs.ErrRefused},
		atLine4 + "-READONLY You can't write":     {wire.Temporary, errs.ErrRefused},
		atLine4 + "-OOM command not allowed when": {wire.Temporary, errs.ErrRefused},
		"@user_script: 4: -OOM command not":       {wire.Temporary, errs.ErrRefused},
		atLine4[:len(atLine4)-len("@user_script: 4: ")] + "WRONGTYPE Operation against a key": {wire.Final, errs.ErrWrongKind},
		"loading redis is loading the dataset":                                                {wire.Temporary, errs.ErrRefused},
		"busy redis is busy running a script":                                                 {wire.Temporary, errs.ErrRefused},
		"ERR Max number of clients reached":                                                   {wire.Temporary, errs.ErrRefused},
		"ERR WRONGPASS invalid":                                                               {wire.Final, errs.ErrDenied},
		"noauth authentication required":                                                      {wire.Final, errs.ErrDenied},
		"ERR Unknown Command `evalsha`":                                                       {wire.Final, errs.ErrDenied},
		"wrongtype operation against a key":                                                   {wire.Final, errs.ErrWrongKind},
		"ERR command is not available: 'EVALSHA'":                                             {wire.Final, errs.ErrDenied},
	} {
		err := redistest.Outcome(redistest.Refusal(words)).Err
		require.Equal(t, want.verdict, wire.Judge(err), words)
		require.ErrorIs(t, err, want.sentinel, words)
	}
}

// atLine4 is what Redis 6.2 says in front of an error in a script.
const atLine4 = "ERR Error running script (call to f_7230589b3b2bee15a4af065e99a69eb7d4a76432): @user_script:4: @user_script: 4: "

// A script that was denied a right in its middle wrote what it wrote before that. One that was refused whole wrote nothing.
func TestADenialInsideAScriptLeavesWhatItWrote(t *testing.T) {
	t.Parallel()
	for words, may := range map[string]bool{
		"ERR The user executing the script can't run this command or subcommand script: 0a1b, on @user_script:12.": true,
		"ERR ACL failure in script: User limited has no permissions to run the 'set' command":                      true,
		"ERR Unknown Redis command called from script script: 0a1b, on @user_script:79.":                           true,
		atLine4 + "The user executing the script can't run this command or subcommand":                             true,
		atLine4 + "Unknown Redis command called from Lua script":                                                   true,
		"@user_script: 4: The user executing the script can't run this command or subcommand":                      true,
		atLine4 + "-READONLY You can't write against a read only replica.":                                         false,
		"NOPERM User limited has no permissions to run the 'evalsha' command":                                      false,
		"WRONGPASS invalid username-password pair or user is disabled.":                                            false,
		"READONLY You can't write against a read only replica.":                                                    false,
	} {
		require.Equal(t, may, wire.MayHaveRun(redistest.Outcome(redistest.Refusal(words)).Err), words)
	}
}

// These are the exact words of Redis 7.0.15 and of Valkey 8.0.1.
func TestDenialSaysWhatToGrant(t *testing.T) {
	t.Parallel()
	const key, channel, listed = "grant the keys of the session's prefix", "grant the channels of the session's prefix", "ACL LOG"
	for words, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'evalsha' command":                              "grant +evalsha",
		"NOPERM User limited has no permissions to run the 'config|get' command":                        "grant +config|get",
		"NOPERM this user has no permissions to access one of the keys used as arguments":               key,
		"NOPERM No permissions to access a key":                                                         key,
		"NOPERM this user has no permissions to access one of the channels used as arguments":           channel,
		"NOPERM No permissions to access a channel":                                                     channel,
		"ERR The user executing the script can't run this command or subcommand script: 0a, on @u:1.":   listed,
		"ERR The user executing the script can't access at least one of the keys mentioned in the":      key,
		"ERR The user executing the script can't publish to the channel mentioned in the command":       channel,
		atLine4 + "The user executing the script can't run this command or subcommand":                  listed,
		atLine4 + "Unknown Redis command called from Lua script":                                        "renames or removes a command",
		"ERR ACL failure in script: User u has no permissions to run the 'SET' command script: 0a, on ": "grant +set",
		"ERR ACL failure in script: No permissions to access a key script: 0a, on @user_script:1.":      key,
		"ERR ACL failure in script: No permissions to access a channel":                                 channel,
		"NOAUTH Authentication required.":                                                               "the client has no password",
		"WRONGPASS invalid username-password pair or user is disabled.":                                 "is not valid",
		"DENIED Redis is running in protected mode because protected mode is enabled":                   "wants a password",
		"ERR unknown command 'EVAL', with args beginning with: 'x' ":                                    "the server has no EVAL",
		"ERR unknown command `EVALSHA`, with args beginning with: `x`, ":                                "the server has no EVALSHA",
		"ERR invalid password: it is another one":                                                       "is not valid",
	} {
		require.ErrorContains(t, redistest.Outcome(redistest.Refusal(words)).Err, want, words)
	}
}

// Redis 6.2 and 7.0 say in which line of a script a command was denied, and not which command it was.
func TestDenialNamesTheCommandOfAScript(t *testing.T) {
	t.Parallel()
	line := 1 + slices.IndexFunc(strings.Split(proto.LockFreeScript.Source, "\n"), func(line string) bool { return strings.Contains(line, "redis.pcall('SET'") })
	require.Positive(t, line)
	for _, words := range []string{
		"ERR The user executing the script can't run this command or subcommand script: %s, on @user_script:%d.",
		"ERR Error running script (call to f_%s): @user_script:%[2]d: @user_script: %[2]d: The user executing the script can't run this command or subcommand",
	} {
		words = fmt.Sprintf(words, proto.LockFreeScript.SHA1, line)
		require.ErrorContains(t, redistest.Outcome(redistest.Refusal(words)).Err, "(grant +set)", words)
	}
}

// For each reason for which there is no connection the log says what to do, and for each refusal.
func TestRemedyDependsOnTheCause(t *testing.T) {
	t.Parallel()
	for remedy, err := range map[string]error{
		"trust the authority":                   &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"renew the server's certificate":        &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
		"this host name":                        x509.HostnameError{Certificate: new(x509.Certificate)},
		"name the server's TLS port":            tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"a certificate that the server accepts": &net.OpError{Op: "remote error", Err: tls.AlertError(42)},
		"repair the name of the host":           &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}},
		"check that the server runs":            &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"raise maxclients":                      redistest.Outcome(redistest.Refusal("ERR max number of clients reached")).Err,
		"let EVAL reach the server":             redistest.Outcome(redistest.Refusal("NOSCRIPT No matching script. Please use EVAL.")).Err,
		"a server that runs scripts":            redistest.Outcome(redistest.Refusal("ERR unknown command 'evalsha', with args beginning with: 'x' ")).Err,
		"close the session before":              rueidis.ErrClosing,
		"remove the password":                   redistest.Outcome(redistest.Refusal("ERR AUTH <password> called without any password configured for the default user.")).Err,
		"grant what the error names":            redistest.Outcome(redistest.Refusal("NOPERM No permissions to access a key")).Err,
	} {
		require.Contains(t, wire.Remedy(fmt.Errorf("of a call: %w", err)), remedy)
	}
}

// If the server refuses CLIENT NO-EVICT or CLIENT NO-TOUCH, the client says so in two lines, and the second is about something else.
func TestARefusedSetupIsOneLine(t *testing.T) {
	t.Parallel()
	of := func(words string) error {
		return wire.Explain(fmt.Errorf("%s: [CLIENT X ON]\n%w", words, rueidis.ErrNoCache))
	}
	err := of("NOPERM this user has no permissions to run the 'client|no-evict' command")
	require.ErrorIs(t, err, errs.ErrDenied)
	require.ErrorContains(t, err, "grant +client|no-evict")
	require.NotContains(t, err.Error(), "DisableCache")
	require.EqualError(t, of("unknown subcommand 'NO-TOUCH'. Try CLIENT HELP."), "unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.: [CLIENT X ON]")
}

// For an unknown command servers repeat its arguments: hold ids, or a password.
func TestDenialDoesNotRepeatArguments(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"ERR unknown command 'EVALSHA', with args beginning with: 'digest' '1' 'sb:{a}:lock' 'secret' ",
		"ERR unknown command 'AUTH', with args beginning with: 'secret' ",
	} {
		err := redistest.Outcome(redistest.Refusal(words)).Err
		require.ErrorIs(t, err, errs.ErrDenied)
		require.Equal(t, wire.Final, wire.Judge(err))
		require.NotContains(t, err.Error(), "secret")
		var refusal *rueidis.RedisError
		require.NotErrorAs(t, err, &refusal, "nor by unwrapping it")
	}
}

func TestEveryFailureHasItsVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want wire.Verdict
	}{
		"Refused":        {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, wire.Temporary},
		"NoSuchHost":     {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}, wire.Temporary},
		"NoNode":         {rueidis.ErrNoSlot, wire.Temporary},
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
