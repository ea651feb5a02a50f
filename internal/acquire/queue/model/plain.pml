// SPDX-License-Identifier: Apache-2.0

/* The plain acquire: SET NX PXAT, PTTL and GET in one pipeline, in place of a script. The file runs beside this one lists what is
 * checked; `make model` checks it.
 *
 * Modelled: two sessions, one key, and the server's clock. A session sends the three commands with a stamp by its estimate of that
 * clock, which is right, E ticks behind, or some ahead. Each command is executed at any later time, and those of others come between them.
 * The replies may be lost; a SET may be doubled, and the copy comes at any time. Beside that, both sessions acquire and release by
 * scripts, keys end by the clock, and floors are kept for K ticks.
 *
 * Left out: queues and marks (a SET finds a key, and does nothing), several servers, clocks of different rates.
 *
 * Each rule can be dropped, -DDROP=<rule>, and then a run has to find what goes wrong without it.
 */

#ifndef T
#define T 9           /* the clock runs from E to E + T */
#endif
#ifndef E
#define E 4           /* by how much the estimate is behind, if it is */
#endif
#ifndef AHEAD
#define AHEAD 1       /* the same, ahead; as with a clock that is set back, no more than K - B */
#endif
#ifndef L
#define L 3           /* the lease of a plain acquire; its key lives for B longer */
#endif
#ifndef B
#define B 1           /* how old the stamp may be when the SET is executed; less than L and than K */
#endif
#ifndef K
#define K 2           /* how long a floor is kept */
#endif

#define READ_LIFE 1      /* nothing is believed that PTTL does not say */
#define READ_VALUE 2     /* and only if the key has the caller's value after that */
#define STAMP_IS_NEW 3   /* a life that is shorter than the lease is not believed: the stamp is too old */
#define FRESH_TICKET 4   /* after no reply, the session continues with a fresh ticket */
#define FROM_SENDING 5   /* the deadline counts from the sending */
#ifndef DROP
#define DROP 0
#endif
#define kept(rule) (DROP != rule)

#include "common.pml"

mtype = { IDLE, SENT, SET_DONE, LIFE_READ, READ, NO_REPLY, HELD };
mtype = { NONE, HOLD, FLOOR };

/* The server. */
byte now = E;
mtype key = NONE; byte owner; byte stamp; byte end;

/* The sessions. An attempt is a session and a bit, which changes with each attempt. */
mtype state[2] = IDLE; bit attempt[2];
byte its_stamp[2];           /* what the SET brings; the token of a hold */
bit ok[2]; byte left[2]; bit own[2];    /* the replies */
byte age[2];                 /* since the sending */
byte until[2];               /* HELD: what is left of the lease, as the session knows */
bit copy[2]; byte copy_stamp[2]; bit copy_attempt[2];

/* Only the checks know this. */
byte newest;                 /* the greatest token so far */

#define id(s) ((s) * 2 + attempt[s])
#define believes(s) (state[s] == HELD && until[s] > 0)

inline ends() { if :: key != NONE && end <= now -> key = NONE; owner = 0; stamp = 0; end = 0 :: else fi }
inline hold(i, at, till) {
  if :: till > now -> key = HOLD; owner = i; stamp = at; end = till :: else -> reached(0) fi /* a SET whose end is over leaves no key, and replies OK */
}
inline begin(s, token) {
  promise("broken: one holder\n", !believes(1 - s));
  promise("broken: a later holder has no smaller token\n", token >= newest);
  newest = MAX(newest, token); state[s] = HELD; its_stamp[s] = token
}
inline clear(s) { state[s] = IDLE; its_stamp[s] = 0; ok[s] = 0; left[s] = 0; own[s] = 0; age[s] = 0; until[s] = 0 }
/* A leave by script: whatever the attempt has is released. */
inline leave(s) {
  ends();
  if :: key == HOLD && owner == id(s) -> key = FLOOR; owner = 0; end = now + K :: else fi;
  clear(s)
}
#define fresh(s) attempt[s] = 1 - attempt[s]
#define next_is_free(s) (!(copy[s] && copy_attempt[s] == 1 - attempt[s]) && !(key == HOLD && owner == s * 2 + 1 - attempt[s]))

/* lock/enter: acquires a free lock; sent again for the same ticket it keeps the hold, and replies its stamp. */
inline enter(s) {
  ends();
  if
  :: key == HOLD && owner == id(s) -> end = MAX(end, now + L); until[s] = L; begin(s, stamp)
  :: key == NONE -> hold(id(s), now, now + L); until[s] = L; begin(s, now)
  :: key == FLOOR -> stamp = MAX(stamp, now); hold(id(s), stamp, now + L); until[s] = L; begin(s, stamp)
  :: else -> clear(s)
  fi
}

proctype Session(byte s) {
  byte error;
  do
  :: d_step { state[s] == IDLE && next_is_free(s) -> fresh(s); enter(s) }
  :: atomic { state[s] == IDLE && next_is_free(s) && now < E + T ->
       if :: error = 0 :: error = E :: error = E + AHEAD fi;
       d_step { fresh(s); its_stamp[s] = now + error - E; state[s] = SENT; error = 0 } }
  :: d_step { state[s] == SENT ->
       ends(); state[s] = SET_DONE; ok[s] = (key == NONE);
       if :: ok[s] -> hold(id(s), its_stamp[s], its_stamp[s] + L + B) :: else fi }
  :: d_step { state[s] == SENT && !copy[s] -> copy[s] = 1; copy_stamp[s] = its_stamp[s]; copy_attempt[s] = attempt[s] }
  :: d_step { state[s] == SET_DONE -> ends(); state[s] = LIFE_READ; left[s] = (key == NONE -> 0 : end - now) }
  :: d_step { state[s] == LIFE_READ -> ends(); state[s] = READ; own[s] = (key == HOLD && owner == id(s)) }
  :: d_step { state[s] == READ ->
       if
       :: !ok[s] -> reached(1); clear(s)
       :: ok[s] && kept(READ_LIFE) && (left[s] == 0 || left[s] < L && kept(STAMP_IS_NEW) ||
            left[s] > L + B || !own[s] && kept(READ_VALUE)) ->
          reached(2); leave(s)
       :: else ->
          until[s] = (kept(FROM_SENDING) -> (L > age[s] -> L - age[s] : 0) : L);
          if
          :: until[s] > 0 -> reached(3); begin(s, its_stamp[s]); left[s] = 0; ok[s] = 0; own[s] = 0; age[s] = 0
          :: else -> leave(s)
          fi
       fi }
  :: d_step { state[s] == SENT || state[s] == SET_DONE || state[s] == LIFE_READ || state[s] == READ -> /* no reply: the SET may come yet */
       if :: state[s] == SENT && !copy[s] -> copy[s] = 1; copy_stamp[s] = its_stamp[s]; copy_attempt[s] = attempt[s] :: else fi;
       clear(s); state[s] = NO_REPLY }
  :: d_step { state[s] == NO_REPLY && kept(FRESH_TICKET) -> leave(s) }
  :: d_step { state[s] == NO_REPLY && !kept(FRESH_TICKET) -> enter(s) }
  :: d_step { state[s] == HELD -> leave(s) }
  :: d_step { copy[s] ->
       ends();
       if :: key == NONE -> reached(4); hold(s * 2 + copy_attempt[s], copy_stamp[s], copy_stamp[s] + L + B) :: else fi;
       copy[s] = 0; copy_stamp[s] = 0; copy_attempt[s] = 0 }
  od
}

proctype Clock() {
  do
  :: d_step { now < E + T ->
       now++; ends();
       lower(until[0]); lower(until[1]);
       age[0] = (state[0] != IDLE && state[0] != HELD && state[0] != NO_REPLY && age[0] < L -> age[0] + 1 : age[0]);
       age[1] = (state[1] != IDLE && state[1] != HELD && state[1] != NO_REPLY && age[1] < L -> age[1] + 1 : age[1]) }
  od
}

init { atomic { run Session(0); run Session(1); run Clock() } }
