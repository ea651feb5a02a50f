// SPDX-License-Identifier: Apache-2.0

// Package wire runs scripts on the server through a rueidis client, and says of every error whether the
// script can have been executed.
//
// # Guarantees
//
//  1. A script is sent by its digest, and by its text if the server does not know it, in pipelines
//     too. If several calls that are sent alone need the text, one sends it and the others wait for
//     it. A script that was refused is sent again. A script whose outcome is unknown is never sent
//     again by this package: its caller knows what a repetition means.
//  2. A caller's context ends a call at once, also one with a deadline far off: the client is
//     shown the end of the context, not its deadline. The exception is under "Not guaranteed".
//  3. Every error has a Verdict, and carries the server's words, less the arguments that it repeats.
//  4. While a server refuses connections, for whatever reason, it is asked for one at most twenty times a
//     second, however many calls there are (Connector). The calls in between wait for the next try, or get
//     the error of the last one.
//  5. A connection is left if its server says that it is the wrong one, and when it is old. A call that was
//     not sent because of that is sent on the next connection.
//  6. A script with keys of several slots is sent only if a probe has shown that this works. RunByKey sends it
//     again, for each key alone, if it was refused or says that a key is lost.
//  7. A client that is made later (LateClient) sends nothing before its server has passed the checks. It is made once.
//
// # Not guaranteed
//
// A call that has ended by its context may still be executed.
//
// The client checks no context while it connects: for its Dialer.Timeout until the connection is made, and as
// long again until the first reply. A call outlives its context by that in three cases: it is the first one
// after a connection broke that no Connector made, so that its closing was not counted; it began at the
// moment of the closing; or a cluster redirects it to a node that the client is not connected to, with one of
// the several connections that PipelineMultiplex allows. All other calls return when their contexts end.
package wire
