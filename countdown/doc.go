// SPDX-License-Identifier: Apache-2.0

// Package countdown is a latch across processes: whoever waits goes on when so many pieces of work were
// counted down, wherever they were done.
//
// # Usage
//
// One starts a round of n. Workers count their ids down, each its own; anybody waits, in any process. The ID of the
// round goes to the workers with their work, so that a late one is not taken for one of the next round:
//
//	round, err := countdown.New(session, "import/42").Start(ctx, len(files))
//	...                                                     // each worker is given round.ID() and a file
//	err = round.Wait(ctx)
//
//	round := countdown.New(session, "import/42").RoundOf(id) // in the worker
//	left, err := round.CountDown(ctx, file)
//
// See the examples, and examples/barrier for rounds that follow each other.
//
// # Guarantees
//
//  1. A round opens when n different ids were counted, and never before: an id counts once, however often it is
//     sent, by whichever process. A worker that is killed and started again repeats its ids.
//  2. What is over stays over: a round that has opened, or was reset, is neither opened nor reset again. A late
//     worker of an old round counts in no other one, and is told.
//  3. A Start whose answer is lost answers its own round; one that answered an error leaves no round behind, once the
//     server answers, at the latest 3 s after it was sent.
//  4. Every wait is bounded: one message opens a round for all who wait in a process; where it is lost a look finds out,
//     about a second later. What the server has lost is told, and not waited for. After each renewed subscription
//     all look again.
//  5. A waiter costs the server nothing beside the first one of its session and latch: one subscription and one look
//     a second, and no goroutine or timer here.
//
// # Not guaranteed
//
// That the ids which come are the right ones: any n different ones open a round.
//
// Counts that the server lost: replication is asynchronous, so that a failover may lose the newest ones. Their workers
// were told that they count. A round that stays closed after one is short of some of them; it is safe to send all ids again. A
// failover that lost the start is ErrRoundLost.
//
// How rounds before the last 32 ended, if one of them was reset: up to that one they are all
// ErrRoundLost. If the reply to a Start is lost and 33 rounds begin before it is sent again, it
// returns ErrUnconfirmed: its round may have begun, and is over.
//
// Hashed names (signalbox.WithHashedNames) do not hide ids: the key contains them until the round
// opens. WaitReplicas is ErrBadOption here.
//
// # States
//
//	none ----Start----> running ----the last id----> open ----Start----> over, and another one runs
//	                       |                          |
//	                       +----Reset----> reset      |
//	                       |                 |        |
//	                       +-----------------+--------+----Keep is over, or the server lost it----> forgotten
//
//	            Start       CountDown          Reset      Wait          Count     Round
//	none        begins one  ErrRoundLost       -          ErrRoundLost  the same  ErrNoRound
//	running     ErrRunning  how many are left  resets it  waits         so many   joins it
//	open        begins one  0                  -          nil           0         joins it
//	over        -           ErrRoundOver       -          nil           0         -
//	reset       begins one  ErrReset           -          ErrReset      the same  ErrNoRound
//	forgotten   as none
//
// # Time
//
// A round is kept for as long as Keep says, 24 hours by default, after its last use: a count-down, a Count or
// a look of somebody who waits. The option of its starter counts. IDs are the server's time at the start, and at least
// one more than the last, also where its clock was set back.
//
// # Failure
//
//	event                          who waits                          who counts down
//	an answer is lost              -                                  the id is sent again, and counts once
//	the message is lost            goes on after a look               -
//	server away, or refuses        waits on, within the context       tries on, within the context
//	server restarted empty         ErrRoundLost                       the same
//	the key deleted, or evicted    ErrRoundLost, after a look         the same
//	memory full                    waits on                           tries on; the last one opens the round
//	a worker killed                waits on                           started again, it repeats its ids
//	the starter killed             waits on                           goes on
//	subscribing is denied          looks, ten times a second          -
//
// # Redis
//
// One key, "<prefix>{<name>}:latch", a hash: two fields, and one for each id until the round opens. The end of a round is
// told on "<prefix>{<name>}:latch:ended". Scripts countdown/*. It shares nothing with locks of its name. Redis 7.0,
// Valkey 7.2 or newer.
//
// An idle latch costs about (420 + len(prefix) + len(name)) bytes after its rounds are over, for as
// long as Keep says, 24 hours by default. A service that uses each name only once needs that for
// (names per second) x Keep names: 38 MB for one name a second with the default. Set Keep to what
// late callers need.
//
//	Start        1 round trip, and 1 more for the first call of a session
//	CountDown    1, four commands whatever the number of ids
//	Wait         1 look, a subscription and 1 look more, for the first one of its session; none for the others
//	open         1 message for each process that waits
//	waiting      1 look a second for each latch, however many wait in the session
//	Count        1
//	Round        1
//	Reset        2
//
// # Redisson's layout
//
// A latch with signalbox.Redisson is Redisson's RCountDownLatch: one number, which processes in Java and in Go count down, and
// which opens for both. It has no place for ids, nor for rounds:
//
//   - Each CountDown counts, whatever its id: a worker that repeats one opens the round early.
//   - All rounds have the ID 1. A late worker counts in the round that runs then; where none runs it is told ErrRoundOver.
//   - Start, CountDown and Reset are not sent again where no answer came, since they could count twice: they are ErrUnconfirmed then, and may be
//     done or not. What the server refuses for now is sent again as ever.
//   - A latch that is not there is open: Count is 0, Wait answers nil, Round joins it. Nobody can tell whether it opened, was deleted, or was
//     lost with the server's data, so neither ErrReset nor ErrRoundLost is answered.
//   - Reset deletes it. Waiters in Go go on, after a look; waiters in Java are not told, and sleep.
//   - The key has no end, and Keep no part in it.
//
// A round never opens early for who waits in Go, and every wait is bounded, with one exception: who calls Wait in the very moment in which the round
// opens and the next is started, or whose connection breaks in that moment, waits for the next. Anybody who may publish on the channel can end a wait, as in Java.
//
// A Wait costs one look more than above, for each that comes. Where the latch is not open that look publishes a random number, which is how the session knows
// what was told before it and what behind; Redisson takes no notice.
//
// The key is "<name>", the channel "redisson_countdownlatch__channel__{<name>}", with these braces always: in a cluster a name with a
// hash tag of its own is ErrBadName. Scripts redisson/latch-*.
package countdown
